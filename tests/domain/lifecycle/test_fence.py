"""A lost host: nothing is let go before its power is proven off, and nothing is powered twice."""

from __future__ import annotations

import pytest

from fleet.lifecycle.models import Intent, Workflow
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.crashing import Death, succeeds_through
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


@pytest.fixture
def world(build: Build) -> World:
    found = build(NODE)
    found.change(NODE, ready=None)
    found.pods["train/p"] = a_pod("p", NODE)
    return found


def lost(world: World) -> Workflow:
    return fault(world, NODE, cause="host-lost", action_class="fence_node")


def verbs(world: World) -> list[str]:
    return [str(verb) for _, verb in world.resets]


def test_a_lost_host_is_fenced_powered_on_and_returned(world: World) -> None:
    workflow = lost(world)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    assert verbs(world) == ["ForceOff", "On"]
    assert world.fenced_while_on == []
    order = [
        write.split()[0] + write.split()[-1] if write.startswith("fence") else write.split()[0]
        for write in world.writes
    ]
    assert order[:3] == ["hold", "fenceon", "fenceoff"]
    assert not any(write.startswith("evict") for write in world.writes)
    assert state_of(NODE) == "in_service" and world.nodes[NODE].taints == ()


def test_a_bmc_that_lies_about_the_power_off_never_lets_a_volume_go(world: World) -> None:
    world.bmc[NODE] = "lies"
    workflow = lost(world)
    assert world.run(900, lambda: again(workflow).state == "repair")
    assert verbs(world) == ["ForceOff"] * 3
    assert not any(write.startswith("fence") for write in world.writes) and "train/p" in world.pods


def test_a_wrong_serial_goes_to_people_without_a_call(world: World) -> None:
    world.bmc[NODE] = "wrong_serial"
    workflow = lost(world)
    assert world.run(60, lambda: again(workflow).state == "repair")
    assert world.resets == []


def test_a_host_that_is_ready_again_is_not_fenced(world: World) -> None:
    workflow = lost(world)
    world.change(NODE, ready=True)
    assert world.run(300, lambda: again(workflow).state == "cancelled")
    assert world.resets == [] and "train/p" in world.pods
    assert state_of(NODE) == "in_service" and not world.nodes[NODE].unschedulable


def test_a_host_whose_kubelet_answers_is_not_lost(world: World) -> None:
    workflow = lost(world)
    world.change(NODE, ready=False)
    world.run(60)
    assert again(workflow).blocked_code == "kubelet_answers" and world.resets == []


@pytest.mark.parametrize("place", ["before reset", "after reset", "after fence"])
def test_a_crash_between_any_two_acts_powers_nothing_twice(world: World, place: str) -> None:
    succeeds_through(Death(place), world, lost)
    assert verbs(world).count("On") <= 1 + (place == "before reset")
    assert verbs(world).count("ForceOff") == 1
    assert world.fenced_while_on == []
    assert Intent.objects.filter(verb="fence").count() >= 1
