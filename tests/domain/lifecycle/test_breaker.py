"""The breaker stops new disruption, keeps what is safe going, and is closed by people only."""

from __future__ import annotations

from datetime import time, timedelta

import pytest

from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import services
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Breaker, BreakerRule, Cap, Window
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NAMES = [f"gpu-r{rack:02d}-{number:02d}" for rack in range(1, 4) for number in range(1, 3)]


@pytest.fixture
def world(build: Build) -> World:
    found = build(*NAMES, fleet=20)
    Cap.objects.all().delete()
    BreakerRule.objects.update_or_create(cluster_id=None, defaults={"percent": 10, "least": 3, "cooldown": 60})
    return found


def tripped(world: World) -> list[Workflow]:
    workflows = [fault(world, name) for name in NAMES[:5]]
    world.run(3)
    return workflows


def test_many_faults_at_once_touch_nothing_and_say_why(world: World) -> None:
    workflows = tripped(world)
    assert world.writes == [] and world.resets == []
    for workflow in workflows:
        row = again(workflow)
        assert row.blocked_code == "breaker" and "5 of 26 nodes asked to be held" in row.blocked_text
    assert AuditRow.objects.filter(action="breaker.open").count() == 1
    world.run(1200)
    assert world.writes == [], "it never closes itself"


def test_what_is_safe_goes_on_while_it_is_open(world: World) -> None:
    first = fault(world, NAMES[5])
    assert world.run(120, lambda: state_of(NAMES[5]) == "validating")
    tripped(world)
    assert world.run(120, lambda: again(first).state == "succeeded"), "tests, soak, return and uncordon go on"


def test_what_drains_stops_evicting_and_what_waits_for_its_reset_is_not_reset(world: World) -> None:
    world.pods["train/p"] = a_pod("p", NAMES[5])
    world.budgets["p"] = "train/pdb"
    fault(world, NAMES[5])
    world.run(5)
    tripped(world)
    del world.budgets["p"]
    world.run(60)
    assert world.resets == [] and not any(write.startswith("evict") for write in world.writes)


def test_a_reset_takes_a_reason_cools_down_and_lets_one_node_go_first(world: World, cluster: Cluster) -> None:
    workflows = tripped(world)
    now = world.clock.now()
    with pytest.raises(services.Refused):
        services.reset_breaker(cluster, "ann", " ", now, world.clock)
    services.reset_breaker(cluster, "ann", "the switch was replaced", now, world.clock)
    with pytest.raises(services.Refused):
        services.reset_breaker(cluster, "ann", "again", now, world.clock)
    world.run(20)
    assert again(workflows[0]).blocked_code == "breaker" and "cools down" in again(workflows[0]).blocked_text
    assert world.resets == []
    assert world.run(300, lambda: any(state_of(w.node.name) == "soaking" for w in workflows))
    assert world.rebooting_most == 1, "half open: one node at a time until one has returned"
    assert world.run(600, lambda: all(again(w).state == "succeeded" for w in workflows))


def test_a_reset_discards_plans_whose_fault_is_over(world: World, cluster: Cluster) -> None:
    from fleet.health.models import Incident

    workflows = tripped(world)
    Incident.objects.filter(pk__in=[w.incident_id for w in workflows[1:]]).update(state="resolved")
    services.reset_breaker(cluster, "ann", "they were false", world.clock.now(), world.clock)
    assert [again(w).state for w in workflows] == ["blocked", *["cancelled"] * 4]


def test_remedies_in_vain_trip_it(world: World) -> None:
    BreakerRule.objects.update(least=100, failed=3, failed_percent=50)
    world.job_result = "failed"
    for name in NAMES[:3]:
        fault(world, name)
    assert world.run(600, lambda: Breaker.objects.filter(state="open").exists())
    assert "remedies were in vain" in Breaker.objects.get().text
    late = fault(world, NAMES[4])
    world.run(20)
    assert again(late).blocked_code == "breaker" and not world.nodes[NAMES[4]].unschedulable


def test_a_freeze_keeps_running_work_and_lets_a_node_be_held(world: World) -> None:
    now = world.clock.now()
    Window.objects.create(
        kind="freeze", name="quarter end", zone="UTC", start=time(0), minutes=1440, begins=now - timedelta(days=1),
        ends=now + timedelta(minutes=30), created_at=now,
    )  # fmt: skip
    workflow = fault(world, NAMES[0])
    world.run(20)
    row = again(workflow)
    assert (row.blocked_code, row.blocked_until) == ("freeze", now + timedelta(minutes=30))
    assert world.nodes[NAMES[0]].unschedulable and world.resets == []
    world.clock.tick(1800)
    assert world.run(400, lambda: again(workflow).state == "succeeded")


def test_a_freeze_that_begins_between_grant_and_act_is_kept(world: World) -> None:
    world.pods["train/p"] = a_pod("p", NAMES[0])
    workflow = fault(world, NAMES[0])
    assert world.run(60, lambda: again(workflow).verb == "reboot" or bool(world.resets))
    if not world.resets:
        now = world.clock.now()
        Window.objects.create(kind="freeze", name="now", zone="UTC", start=time(0), minutes=1440, created_at=now)
        world.run(60)
        assert world.resets == [] and again(workflow).blocked_code == "freeze"


def test_a_node_that_left_makes_no_room_in_a_rate(world: World) -> None:
    Cap.objects.create(kind="rate", scope="rack", absolute=1, window=3600)
    first = fault(world, NAMES[0])
    assert world.run(300, lambda: again(first).state == "succeeded")
    Node.objects.filter(name=NAMES[0]).update(gone_at=world.clock.now())
    second = fault(world, NAMES[1])
    world.run(30)
    assert again(second).blocked_code == "rate" and "1 of 1" in again(second).blocked_text
