"""What went wrong elsewhere, played again here. docs/failures-of-others.md lists all of it, with where it is shown."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Node
from fleet.lifecycle import services
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Breaker, BreakerRule, Cap, Claim
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World, a_pod

RACK = tuple(f"gpu-r01-{number:02}" for number in range(1, 6))


@pytest.fixture
def world(build: Build) -> World:
    return build(*RACK)


def test_slow_cordoning_that_no_rate_would_ever_see_is_stopped_by_the_level(world: World) -> None:
    """One node every two hours: no window of minutes trips, and yet the rack would empty."""
    Cap.objects.filter(kind="take_out", scope="rack").update(absolute=2)
    for name in RACK:
        world.bmc[name] = "lies"  # each ends with people, and stays out
        fault(world, name)
        world.run(20)
        world.clock.tick(7200)
    world.run(30)
    out = [name for name, _ in world.resets]
    assert len(set(out)) == 2 and Breaker.objects.filter(state="open").count() == 0
    last = Workflow.objects.get(node__name=RACK[-1])
    assert last.blocked_code == "cap_take_out" and "Rack r01: 2 of 2 out of service" in last.blocked_text


def test_a_restart_forgets_no_cordon_of_the_breakers_window(world: World) -> None:
    """What counts are rows that another process wrote: nothing is in memory."""
    BreakerRule.objects.all().delete()
    BreakerRule.objects.create(cluster_id=None, least=3, percent=1, window=600)
    for number, node in enumerate(Node.objects.filter(name__startswith="other-")):
        Claim.objects.create(
            cluster_id=world.cluster.pk, kind="hold", node_id=node.pk, workflow_id=10**6 + number,
            claimed_at=world.clock.now(), released_at=world.clock.now(),
        )  # fmt: skip
    workflow = fault(world, RACK[0])
    world.run(5)
    assert again(workflow).blocked_code == "breaker" and world.writes == []


def test_a_node_that_is_relabelled_in_the_middle_of_its_reboot_makes_no_room(world: World) -> None:
    Cap.objects.filter(kind="in_flight", scope="rack").update(absolute=1)
    fault(world, RACK[0])
    assert world.run(60, lambda: bool(world.resets))
    Node.objects.filter(name=RACK[0]).update(managed=False)
    second = fault(world, RACK[1])
    world.run(10)
    assert [name for name, _ in world.resets] == [RACK[0]]
    assert again(second).blocked_code == "cap_in_flight"


def test_a_drain_that_a_budget_keeps_locks_no_reboot_of_others(world: World) -> None:
    """Elsewhere the one lock is held for as long as a budget refuses."""
    Cap.objects.filter(kind="in_flight", scope="rack").update(absolute=1)
    world.pods["train/w-0"] = a_pod("w-0", RACK[0])
    world.budgets["w-0"] = "serving/cache"
    kept = fault(world, RACK[0])
    world.run(30)
    assert again(kept).blocked_code == "pdb"
    other = fault(world, RACK[1])
    assert world.run(200, lambda: again(other).state == "succeeded")
    assert again(kept).blocked_code == "pdb"


def test_in_a_pool_of_one_node_a_percentage_still_lets_it_heal(build: Build) -> None:
    """Twenty percent of one node is no node: elsewhere such a pool never heals."""
    world = build(RACK[0], fleet=0)
    Cap.objects.all().delete()
    for kind in ("hold", "take_out", "in_flight"):
        Cap.objects.create(kind=kind, scope="pool", percent=20)
    workflow = fault(world, RACK[0])
    assert world.run(200, lambda: again(workflow).state == "succeeded")


def test_a_node_that_is_gone_keeps_its_room_from_nobody(world: World) -> None:
    """Elsewhere the lock is held for ever by the name of a node that was deleted."""
    Cap.objects.filter(kind="take_out", scope="rack").update(absolute=1)
    for name in RACK[:2]:
        world.pods[f"train/{name}"] = a_pod(name, name, gang="")
    world.budgets[RACK[0]] = "train/pdb"
    gone = fault(world, RACK[0])
    assert world.run(60, lambda: again(gone).blocked_code == "pdb")
    waiting = fault(world, RACK[1])
    world.run(30)
    assert again(waiting).blocked_code == "cap_take_out"
    del world.nodes[RACK[0]]
    services.retire_nodes(world.cluster.pk, [Node.objects.get(name=RACK[0]).pk], world.clock.now())
    assert world.run(300, lambda: again(waiting).state == "succeeded"), again(waiting).blocked_text
    assert again(gone).state == "cancelled" and [name for name, _ in world.resets] == [RACK[1]]
