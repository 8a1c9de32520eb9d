"""A node is installed anew once, by whoever provisions it, and followed when it comes back as another object."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import services
from fleet.lifecycle.machine import OUT_STATES
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.playbooks import PlannedStep
from fleet.lifecycle.steps import reprovision
from fleet.policy import selectors as policy
from fleet.policy.rules import IN_FLIGHT
from fleet.ports.cluster import HOLD_ANNOTATION
from fleet.ports.errors import PermanentError, TemporaryError
from fleet.readmodels.workflow_page import step_lines
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.crashing import Death, succeeds_through
from tests.domain.lifecycle.provider import Provider
from tests.domain.lifecycle.world import TIMING, World, a_pod

NODE = "gpu-r01-01"
STAGES = pytest.mark.parametrize("stages", [1, 2])
OBJECTS = pytest.mark.parametrize("recreates", [False, True])


@pytest.fixture
def world(build: Build) -> World:
    found = build(NODE)
    Cluster.objects.update(provisioner="ironic")
    found.change(NODE, system_uuid="machine-1", provider_id="openstack:///i-1")
    return found


def broken(world: World) -> Workflow:
    """A fault whose ladder is at its last rung."""
    workflow = fault(world, NODE)
    plan = [PlannedStep.of(step) for step in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(
        plan=[{"verb": "reprovision"} if "reprovision" in step.ladder else step.as_json() for step in plan], attempts=1
    )
    return again(workflow)


@STAGES
@OBJECTS
def test_the_host_is_installed_anew_and_the_node_returns(world: World, stages: int, recreates: bool) -> None:
    provider = Provider(world, stages, recreates)
    workflow = broken(world)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    assert provider.installed == [NODE] and len(provider.requests) == stages
    assert len(set(provider.requests)) == 1, "the requests of one reprovision carry one op_id"
    assert world.resets == [] and state_of(NODE) == "in_service"
    assert not world.nodes[NODE].unschedulable and HOLD_ANNOTATION not in world.nodes[NODE].annotations
    assert again(workflow).node_uid == world.nodes[NODE].uid


def test_a_new_node_object_is_held_before_it_is_tested_and_counts_while_it_is_gone(world: World) -> None:
    Provider(world, recreates=True)
    workflow = broken(world)
    assert world.run(100, lambda: NODE not in world.nodes)
    assert state_of(NODE) == "remediating" and again(workflow).state == "running"
    used = policy.read_fleet(world.clock.now(), OUT_STATES).tally.used(IN_FLIGHT, ("rack", "demo", "r01"))
    assert list(used.values()) == [NODE]
    assert world.run(100, lambda: NODE in world.nodes and world.nodes[NODE].unschedulable)
    assert world.nodes[NODE].annotations[HOLD_ANNOTATION] == again(workflow).hold_value
    assert not any(name.startswith("muster-validate") for name in world.jobs)


def test_work_that_came_before_the_hold_is_evicted_again(world: World) -> None:
    provider = Provider(world, recreates=True)
    provider.pod_first = a_pod("early", NODE)
    workflow = broken(world)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    evicted = world.writes.index("evict train/early")
    assert evicted < next(i for i, write in enumerate(world.writes) if write.startswith("job"))


def test_another_machine_under_the_name_is_for_people(world: World) -> None:
    provider = Provider(world, recreates=True)
    provider.uuid_back = "machine-2"
    workflow = broken(world)
    assert world.run(300, lambda: again(workflow).state == "repair")
    assert "another machine" in again(workflow).blocked_text
    assert not world.nodes[NODE].unschedulable, "a stranger's node is not ours to hold"


def test_a_deletion_that_is_not_ours_ends_the_workflow(world: World) -> None:
    provider = Provider(world, recreates=True)
    provider.behaviour = "busy"
    workflow = broken(world)
    assert world.run(60, lambda: again(workflow).verb == "reprovision")
    world.run(5)
    del world.nodes[NODE]
    row = Node.objects.get(name=NODE)
    services.retire_nodes(world.cluster.pk, [row.pk], world.clock.now())
    assert again(workflow).state == "cancelled" and state_of(NODE) == "retired"
    assert provider.requests == []


def test_a_person_who_takes_the_new_node_back_is_respected(world: World) -> None:
    Provider(world, recreates=True)
    workflow = broken(world)
    assert world.run(200, lambda: NODE in world.nodes and again(workflow).node_uid.endswith("-1"))
    world.run(3, lambda: world.nodes[NODE].unschedulable)
    world.change(NODE, unschedulable=False, annotations={})
    assert world.run(100, lambda: again(workflow).state == "cancelled")
    assert not world.nodes[NODE].unschedulable


@STAGES
@pytest.mark.parametrize("lost", ["lost_before", "lost_after"])
def test_an_answer_that_was_lost_is_looked_for_first(world: World, stages: int, lost: str) -> None:
    provider = Provider(world, stages)
    provider.behaviour = lost
    workflow = broken(world)
    assert world.run(400, lambda: again(workflow).state == "succeeded")
    assert provider.installed == [NODE]
    outcomes = list(Intent.objects.filter(verb="reprovision").values_list("outcome", flat=True))
    assert sorted(outcomes) == (["done", "expired"] if lost == "lost_before" else ["done"])


def test_a_provider_that_says_yes_and_does_nothing_is_found_out(world: World) -> None:
    provider = Provider(world)
    provider.behaviour = "lies"
    workflow = broken(world)
    assert world.run(400, lambda: again(workflow).state == "repair")
    assert len(provider.requests) == reprovision.MAX_TRIES and provider.installed == []
    assert "nothing began" in again(workflow).blocked_text


def test_a_provider_that_gives_up_is_heard_after_its_own_retries(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reprovision, "FAILED_FOR", 30.0)
    provider = Provider(world)
    provider.behaviour = "fails"
    workflow = broken(world)
    assert world.run(400, lambda: again(workflow).state == "repair")
    assert "no disk" in again(workflow).blocked_text and len(provider.requests) == 1


def test_a_locked_host_is_waited_for(world: World) -> None:
    provider = Provider(world)
    provider.behaviour = "busy"
    workflow = broken(world)
    world.run(60)
    assert again(workflow).blocked_code == "provider_locked" and provider.requests == []
    provider.behaviour = ""
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert provider.installed == [NODE]


def test_what_lasts_too_long_is_stalled_and_may_still_end_well(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(world)
    workflow = broken(world)
    plan = [{**step, "deadline": 60.0} if step["verb"] == "reprovision" else step for step in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(plan=plan)
    monkeypatch.setattr("tests.domain.lifecycle.provider.TAKES", 10_000)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert "Stalled" in again(workflow).blocked_text and len(provider.requests) == 1


@pytest.mark.parametrize(
    ("said", "code"),
    [("refusals", "owns the host"), ("wrong_serial", "serial X"), ("nobody", "No provisioner is configured")],
)
def test_a_host_that_is_not_ours_to_install_is_for_people(world: World, said: str, code: str) -> None:
    provider = Provider(world)
    if said == "refusals":
        provider.refusals = ("Metal3Machine m-1 owns the host: reprovision it there.",)
    elif said == "nobody":
        world.provision = None
    else:
        provider.behaviour = said
    workflow = broken(world)
    assert world.run(100, lambda: again(workflow).state == "repair")
    assert code in again(workflow).blocked_text and provider.requests == []


@pytest.mark.parametrize("error", [TemporaryError("unreachable", code="provider_unreachable"), PermanentError("401")])
def test_a_provider_that_cannot_be_asked_meanwhile_is_asked_again(
    world: World, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    provider = Provider(world)
    workflow = broken(world)
    assert world.run(100, lambda: bool(provider.requests))
    observe = provider.observe

    def away(target: Any) -> Any:
        raise error

    monkeypatch.setattr(provider, "observe", away)
    world.run(60)
    assert again(workflow).state == "blocked" and "provider" in again(workflow).blocked_text
    monkeypatch.setattr(provider, "observe", observe)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(provider.requests) == 1


def deaths() -> list[tuple[str, int, int, bool]]:
    """(place, visit, stages, recreates). Only a second stage is requested again, only another object held again."""
    found = [
        (place, 1, stages, recreates)
        for place in ("before request", "after request", "after hold")
        for stages in (1, 2)
        for recreates in (False, True)
    ]
    return found + [
        (place, 2, stages, recreates)
        for place, _, stages, recreates in found
        if (recreates if place == "after hold" else stages == 2)
    ]


@pytest.mark.parametrize(("place", "nth", "stages", "recreates"), deaths())
def test_a_crash_between_any_two_acts_installs_nothing_twice(
    world: World, place: str, nth: int, stages: int, recreates: bool
) -> None:
    provider = Provider(world, stages, recreates)
    succeeds_through(Death(place, nth), world, broken)
    assert provider.installed == [NODE]


def test_the_rung_is_in_the_plan_only_where_somebody_can_do_it(build: Build) -> None:
    world = build(NODE, "gpu-r01-02")
    without = fault(world, NODE)
    step = next(step for step in without.plan if step.get("ladder"))
    assert step["ladder"] == ["reboot", "power_cycle"] and without.attempts == 2
    assert "no provisioner is configured" in step["left_out"]
    assert any("no provisioner is configured" in line.text for line in step_lines(without, []))
    Cluster.objects.update(provisioner="metal3")
    with_one = fault(world, "gpu-r01-02")
    step = next(step for step in with_one.plan if step.get("ladder"))
    assert step["ladder"] == ["reboot", "power_cycle", "reprovision"] and with_one.attempts == 3
    assert "left_out" not in step and TIMING.reprovision_timeout > 0
