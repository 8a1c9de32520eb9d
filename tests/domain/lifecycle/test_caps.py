"""Many faults at once: everybody is held, few are out, and everybody who waits says why."""

from __future__ import annotations

from fleet.inventory.models import Node
from fleet.lifecycle.models import Workflow
from fleet.policy import services as policy
from fleet.policy.models import Cap
from tests.builders import a_node
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import a_pod

RACK = [f"gpu-r01-{number:02d}" for number in range(1, 13)]


def test_twelve_faults_in_one_rack_hold_all_and_never_reboot_three(build: Build) -> None:
    world = build(*RACK)
    workflows = [fault(world, name) for name in RACK]
    world.run(3)
    assert all(world.nodes[name].unschedulable for name in RACK)
    waiting = [again(w) for w in workflows if again(w).blocked_code.startswith("cap_")]
    assert len(waiting) == 10
    assert all(w.blocked_code and w.blocked_text and w.blocked_until for w in waiting)
    assert world.run(900, lambda: all(again(w).state == "succeeded" for w in workflows))
    assert world.rebooting_most == 2
    assert len(world.resets) == 12


def test_a_release_wakes_the_next_in_line(build: Build) -> None:
    world = build(*RACK[:3])
    workflows = [fault(world, name) for name in RACK[:3]]
    assert world.run(200, lambda: sum(again(w).state == "succeeded" for w in workflows) >= 2)
    assert world.run(60, lambda: all(again(w).state == "succeeded" for w in workflows))


def test_a_cap_that_is_lowered_counts_at_the_act(build: Build) -> None:
    world = build(*RACK[:2])
    for name in RACK[:2]:
        world.pods[f"train/p-{name}"] = a_pod(f"p-{name}", name)
        fault(world, name)
    world.run(2)
    Cap.objects.filter(kind="in_flight", scope="rack").update(absolute=1)
    world.run(60)
    assert world.rebooting_most == 1


def test_the_kill_switch_stops_new_disruption_and_says_who_threw_it(build: Build) -> None:
    world = build(RACK[0])
    policy.stop_all(stopped=True, by="minseo", reason="power works in hall 2", now=world.clock.now())
    workflow = fault(world, RACK[0])
    world.run(10)
    blocked = again(workflow)
    assert blocked.blocked_code == "stopped" and "minseo" in blocked.blocked_text
    assert world.writes == []
    policy.stop_all(stopped=False, by="minseo", reason="done", now=world.clock.now())
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_unknown_verdicts_count_as_out(build: Build) -> None:
    world = build(RACK[0], fleet=0)
    node = Node.objects.get(name=RACK[0])
    for number in range(2):
        a_node(node.cluster, f"blind-{number}", rack="r01", verdict="unknown")
    workflow = fault(world, RACK[0])
    world.run(5)
    assert again(workflow).blocked_code == "cap_take_out"
    assert state_of(RACK[0]) == "held"
    assert Workflow.objects.count() == 1
