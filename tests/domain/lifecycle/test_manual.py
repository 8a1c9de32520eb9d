"""A person asks: the same steps, the same guards, and their name on it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from fleet.access.models import Grant, User
from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Node, Pool
from fleet.lifecycle import manual, requester, services
from fleet.lifecycle.models import Workflow
from fleet.policy import services as policy
from fleet.policy.models import ApprovalRule
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


@pytest.fixture
def world(build: Build) -> World:
    return build(NODE)


def ask(world: World, action: str, names: Sequence[str] = (NODE,), by: str = "ann") -> Workflow:
    ids = list(Node.objects.filter(name__in=names).values_list("pk", flat=True))
    made, refused = manual.request(ids, action, by, "new firmware", world.clock.now(), world.clock)
    assert not refused, refused
    return made[0]


def test_a_held_node_is_kept_until_it_is_released_and_then_serves_again(world: World) -> None:
    workflow = ask(world, "hold")
    assert world.run(20, lambda: again(workflow).blocked_code == "kept")
    assert "Kept by ann: new firmware" in again(workflow).blocked_text
    assert state_of(NODE) == "held" and world.nodes[NODE].unschedulable
    services.abort(workflow.pk, "bo", "firmware is in", world.clock.now())
    assert world.run(20, lambda: again(workflow).state == "cancelled")
    assert not world.nodes[NODE].unschedulable


def test_a_drain_by_hand_evicts_and_reboots_nothing(world: World) -> None:
    world.pods["train/p"] = a_pod("p", NODE)
    workflow = ask(world, "drain")
    assert world.run(60, lambda: again(workflow).blocked_code == "kept")
    assert state_of(NODE) == "drained" and not world.pods and world.resets == []


def test_a_reboot_by_hand_waits_for_another_person(world: World) -> None:
    workflow = ask(world, "reboot")
    world.run(20)
    assert world.writes == [] and again(workflow).state == "waiting"
    with pytest.raises(services.Refused, match="Another person"):
        services.approve(workflow.pk, "ann", world.clock.now())
    services.approve(workflow.pk, "bo", world.clock.now())
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(world.resets) == 1
    assert AuditRow.objects.filter(action="workflow.request", actor="ann").count() == 1


def test_an_installation_may_want_nobody_else(world: World) -> None:
    ApprovalRule.objects.create(kind="bmc_power", needed=0, minutes=10)
    workflow = ask(world, "reboot")
    assert world.run(200, lambda: again(workflow).state == "succeeded")


def test_the_kill_switch_and_caps_hold_for_people_too(world: World) -> None:
    policy.stop_all(stopped=True, by="cho", reason="drill", now=world.clock.now())
    workflow = ask(world, "drain")
    world.run(10)
    assert again(workflow).blocked_code == "stopped" and world.writes == []


def test_what_cannot_be_done_is_refused_with_its_reason(world: World, cluster: Cluster) -> None:
    now, pk = world.clock.now(), Node.objects.get(name=NODE).pk
    with pytest.raises(manual.ManualRefused):
        manual.request([pk], "hold", "ann", " ", now, world.clock)
    busy = fault(world, NODE)
    _, refused = manual.request([pk], "hold", "ann", "x", now, world.clock)
    assert refused == {NODE: f"{busy.label} works on {NODE} already."}
    other = Node.objects.get(name="other-000")
    Node.objects.filter(pk=other.pk).update(managed=False)
    assert "managed set" in manual.request([other.pk], "hold", "ann", "x", now)[1]["other-000"]
    spot = Pool.objects.create(cluster=cluster, name="spot", kind="spot")
    Node.objects.filter(name="other-001").update(pool=spot)
    other = Node.objects.get(name="other-001")
    assert "no BMC verb" in manual.request([other.pk], "reboot", "ann", "x", now)[1]["other-001"]
    Cluster.objects.update(mode="observe")
    assert "observe" in manual.request([other.pk], "hold", "ann", "x", now)[1]["other-001"]
    with pytest.raises(manual.ManualRefused, match="no action explode"):
        manual.request([other.pk], "explode", "ann", "x", now)


def test_what_was_asked_for_by_a_person_who_lost_the_role_since_does_not_begin(world: World) -> None:
    workflow = ask(world, "reboot")
    Grant.objects.filter(user__username="ann").update(role="viewer")
    services.approve(workflow.pk, "bo", world.clock.now())
    world.run(30)
    workflow = again(workflow)
    assert (workflow.state, workflow.blocked_code) == ("blocked", "role")
    assert workflow.blocked_text.startswith("ann asked for it and may not have it done now.")
    assert world.writes == [] and world.resets == []
    Grant.objects.filter(user__username="ann").update(role="operator")
    assert world.run(400, lambda: again(workflow).state == "succeeded")


def test_what_was_begun_is_ended_whatever_becomes_of_who_asked(world: World) -> None:
    workflow = ask(world, "reboot")
    services.approve(workflow.pk, "bo", world.clock.now())
    assert world.run(60, lambda: bool(world.resets))
    User.objects.filter(username="ann").delete()
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_a_shell_of_the_installation_needs_no_account(world: World) -> None:
    workflow = ask(world, "hold", by=f"root{requester.SHELL}")
    assert world.run(30, lambda: again(workflow).verb == "keep")
