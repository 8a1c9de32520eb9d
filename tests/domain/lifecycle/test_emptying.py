"""Work that came to a node made anew before our hold leaves as in a drain: written down first, stopped like one."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle import services
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.playbooks import PlannedStep
from fleet.policy import services as policy
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.provider import Provider
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


@pytest.fixture
def world(build: Build) -> World:
    found = build(NODE)
    Cluster.objects.update(provisioner="ironic")
    found.change(NODE, system_uuid="machine-1", provider_id="openstack:///i-1")
    Provider(found, recreates=True).pod_first = a_pod("early", NODE)
    return found


def joined(world: World) -> Workflow:
    """Installed anew and held, with a pod that was quicker."""
    workflow = fault(world, NODE)
    plan = [PlannedStep.of(step) for step in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(
        plan=[{"verb": "reprovision"} if "reprovision" in step.ladder else step.as_json() for step in plan], attempts=1
    )
    return again(workflow)


def evicted(world: World) -> bool:
    return "evict train/early" in world.writes


def stop(world: World, on: bool) -> None:
    policy.stop_all(stopped=on, by="ann", reason="a test", now=world.clock.now())


def test_the_pod_is_named_by_an_intent_before_it_is_evicted(world: World) -> None:
    workflow = joined(world)
    assert world.run(300, lambda: evicted(world))
    named = Intent.objects.filter(workflow=workflow, step__verb="reprovision", verb="evict")
    assert [intent.before["pods"] for intent in named] == [{"uid-early": "train/early"}]
    assert world.run(300, lambda: again(workflow).state == "succeeded")


def test_the_kill_switch_stops_that_eviction_too_and_the_node_is_not_tested_meanwhile(world: World) -> None:
    workflow = joined(world)
    assert world.run(200, lambda: NODE in world.nodes and again(workflow).node_uid.endswith("-1"))
    stop(world, on=True)
    world.run(60)
    assert not evicted(world) and again(workflow).blocked_code == "stopped"
    assert not any(name.startswith("muster-validate") for name in world.jobs)
    stop(world, on=False)
    services.retry_now(workflow.pk, "ann", world.clock.now())
    assert world.run(300, lambda: again(workflow).state == "succeeded") and evicted(world)


def test_a_budget_that_keeps_it_is_named_and_past_the_steps_time_people_are_asked(world: World) -> None:
    world.budgets["early"] = "train/keep"
    workflow = joined(world)
    plan = [{**step, "deadline": 120.0} if step["verb"] == "reprovision" else step for step in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(plan=plan)
    assert world.run(200, lambda: again(workflow).blocked_code == "pdb")
    assert "train/keep" in again(workflow).blocked_text and "train/early" in again(workflow).blocked_text
    assert world.run(300, lambda: again(workflow).state == "repair")
    assert "train/early" in again(workflow).blocked_text and not evicted(world)
