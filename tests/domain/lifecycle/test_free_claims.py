"""Shares of a cap that cost nothing: hosts that were held while they were down, and come back, many at once."""

from __future__ import annotations

import pytest

from dashboard.charts.bars import use_line
from fleet.inventory.models import Node
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Cap, Claim
from fleet.readmodels import policy_page
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

DEAD = tuple(f"gpu-r0{rack}-01" for rack in range(1, 5))
SICK = "gpu-r09-01"


@pytest.fixture
def world(build: Build) -> World:
    built = build(*DEAD, SICK)
    Cap.objects.filter(kind="hold").delete()
    Cap.objects.create(kind="hold", scope="fleet", absolute=1)
    Cap.objects.filter(kind="take_out").delete()
    return built


def ready(world: World, name: str, is_ready: bool, seen: bool = True) -> None:
    """What the node is; `seen`: the observer knows it too."""
    world.change(name, ready=is_ready)
    if seen:
        Node.objects.filter(name=name).update(ready=is_ready)


def down(world: World, name: str) -> Workflow:
    ready(world, name, False)
    return fault(world, name, cause="node-not-ready")


def held(world: World) -> set[str]:
    return {name for name, node in world.nodes.items() if node.unschedulable}


def hold_line(world: World) -> policy_page.Use:
    lines = policy_page.read(None, world.clock.now()).limits
    return next(line.uses[0] for line in lines if (line.kind, line.scope) == ("hold", "fleet"))


def test_hosts_that_come_back_together_are_over_the_cap_and_nobody_joins_them_before_there_is_room(
    world: World,
) -> None:
    lost = [down(world, name) for name in DEAD]
    world.run(2)
    assert held(world) == set(DEAD) and set(Claim.objects.filter(kind="hold").values_list("cost", flat=True)) == {0}
    for name in DEAD:
        ready(world, name, True)
    sick = fault(world, SICK, cause="xid-79")
    for _ in range(100):
        world.run(5)
        over = Claim.objects.filter(kind="hold", released_at=None).exclude(workflow_id=sick.pk).count()
        assert (SICK in held(world)) <= (over == 0), "somebody who could work joined them"
        if over > 1:
            assert again(sick).blocked_code == "cap_hold" and f"{over} of 1 held" in again(sick).blocked_text
            assert hold_line(world).over == over - 1 and use_line(hold_line(world)).over == over - 1
        if all(again(workflow).state == "succeeded" for workflow in (*lost, sick)):
            break
    assert state_of(SICK) == "in_service" and held(world) == set()


@pytest.mark.parametrize("room", [True, False])
def test_a_host_that_is_back_before_its_hold_is_written_counts_like_any_other(world: World, room: bool) -> None:
    first = down(world, DEAD[0])
    world.run(2)
    if room:
        Cap.objects.filter(kind="hold").update(absolute=2)
    second = down(world, DEAD[1])
    ready(world, DEAD[1], True, seen=False)
    world.run(2)
    assert again(second).blocked_code == "counts_now" and DEAD[1] not in held(world)
    assert "is Ready again" in again(second).blocked_text
    Node.objects.filter(name=DEAD[1]).update(ready=True)
    world.run(10)
    assert (DEAD[1] in held(world)) is room
    assert room or again(second).blocked_code == "cap_hold"
    assert world.run(400, lambda: again(first).state == "succeeded" and again(second).state == "succeeded")


def test_many_that_flap_while_their_holds_are_sent_are_never_held_beyond_the_cap(world: World) -> None:
    """A switch that restarts: all are down for as long as the grants take, and up when the holds are written."""
    lost = [down(world, name) for name in DEAD]
    for name in DEAD:
        ready(world, name, True, seen=False)
    for second in range(200):
        world.run(1)
        if second == 7:
            Node.objects.update(ready=True)
        assert len(held(world)) <= 1
        if all(again(workflow).state == "succeeded" for workflow in lost):
            break
    assert all(again(workflow).state == "succeeded" for workflow in lost)


def test_a_node_that_has_work_after_all_asks_for_its_drain_anew(world: World) -> None:
    Cap.objects.create(kind="take_out", scope="fleet", absolute=1)
    Node.objects.filter(name=DEAD[0]).update(foreign_hold=True)  # a person's: the cap is full
    Node.objects.filter(name=SICK).update(pods=0)
    world.pods["train/p"] = a_pod("p", SICK)
    workflow = fault(world, SICK)
    assert world.run(10, lambda: again(workflow).blocked_code == "counts_now")
    Node.objects.filter(name=SICK).update(pods=1)
    assert world.run(10, lambda: again(workflow).blocked_code == "cap_take_out") and "train/p" in world.pods
    Node.objects.filter(name=DEAD[0]).update(foreign_hold=False)
    assert world.run(400, lambda: again(workflow).state == "succeeded")
