"""A lost host: nothing is let go before its power is proven off, and nothing is powered twice."""

from __future__ import annotations

import pytest

from fleet.lifecycle import services
from fleet.lifecycle.models import Intent, Workflow
from fleet.ports.cluster import OUT_OF_SERVICE
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


PLACES = [
    ("before reset", 1), ("before reset", 2), ("after reset", 1), ("after reset", 2), ("before fence", 1),
    ("after fence", 1), ("before unfence", 1), ("after unfence", 1), ("before release", 1), ("after release", 1),
]  # fmt: skip


@pytest.mark.parametrize(("place", "nth"), PLACES)
def test_a_crash_between_any_two_acts_powers_nothing_twice_and_leaves_no_taint(
    world: World, place: str, nth: int
) -> None:
    succeeds_through(Death(place, nth), world, lost)
    assert verbs(world).count("On") <= 1 + (place == "before reset")
    assert verbs(world).count("ForceOff") == 1
    assert world.fenced_while_on == []
    assert Intent.objects.filter(verb="fence").count() >= 1
    assert world.nodes[NODE].taints == () and not world.nodes[NODE].unschedulable


def test_a_host_that_is_back_is_not_powered_off_because_a_worker_died_after_it_took_the_taint_off(
    world: World,
) -> None:
    """Long after the first power-off, so that another would not be held back by its being fresh."""
    workflow = succeeds_through(Slow("after unfence", world), world, lost)
    assert verbs(world) == ["ForceOff", "On"] and again(workflow).state == "succeeded"


class Slow(Death):
    """Dies there, and nobody takes over for five minutes."""

    def __init__(self, place: str, world: World) -> None:
        super().__init__(place)
        self.world = world

    def __call__(self, where: str) -> None:
        try:
            super().__call__(where)
        except BaseException:
            self.world.clock.tick(300)
            raise


def test_a_host_that_did_not_come_back_and_is_given_up_keeps_no_taint_of_ours(world: World) -> None:
    workflow = lost(world)
    assert world.run(120, lambda: bool(world.nodes[NODE].taints))
    world.bmc[NODE] = "lies"  # from here on it powers nothing on
    assert world.run(600, lambda: again(workflow).state == "repair")
    assert world.nodes[NODE].taints, "its pods stay where they went"
    services.abort(workflow.pk, "ann", "we swap the host", world.clock.now())
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert world.nodes[NODE].taints == () and world.nodes[NODE].annotations == {}


def test_a_node_that_a_person_takes_back_in_the_middle_of_the_fence_keeps_no_taint_of_ours(world: World) -> None:
    workflow = lost(world)
    assert world.run(120, lambda: bool(world.nodes[NODE].taints))
    world.change(NODE, unschedulable=False)
    assert world.run(120, lambda: again(workflow).state in ("cancelled", "succeeded"))
    assert world.nodes[NODE].taints == () and world.nodes[NODE].annotations == {}


def test_a_taint_that_the_api_server_only_says_it_took_off_is_taken_off_again(world: World) -> None:
    world.lies.add("unfence")
    workflow = lost(world)
    assert world.run(120, lambda: world.writes.count(f"fence {NODE} off") >= 2)
    assert again(workflow).verb == "fence" and verbs(world) == ["ForceOff", "On"]
    world.lies.clear()
    assert world.run(120, lambda: again(workflow).state == "succeeded")
    assert world.nodes[NODE].taints == ()


def test_a_taint_that_somebody_else_put_there_proves_no_power_off_and_stays(world: World) -> None:
    """A person, a cluster manager or a termination handler marks hosts as out of service too."""
    world.change(NODE, taints=(OUT_OF_SERVICE, ("example.com/team", "a", "NoSchedule")))
    workflow = lost(world)
    assert world.run(700, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text
    assert verbs(world) == ["ForceOff", "On"], "it is not waited for as if its power were off"
    assert not any(write.startswith("fence") for write in world.writes)
    assert world.nodes[NODE].taints == (OUT_OF_SERVICE, ("example.com/team", "a", "NoSchedule"))


def test_a_host_whose_bmc_lies_is_not_let_go_because_somebody_else_has_tainted_it(world: World) -> None:
    world.bmc[NODE] = "lies"
    world.change(NODE, taints=(OUT_OF_SERVICE,))
    workflow = lost(world)
    assert world.run(900, lambda: again(workflow).state == "repair")
    assert verbs(world) == ["ForceOff"] * 3 and world.nodes[NODE].taints == (OUT_OF_SERVICE,)
