"""Recommend mode: a plan runs when another person has agreed to exactly that plan, and not otherwise."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle import approving, planner, services
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Approval
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"


@pytest.fixture
def world(build: Build, cluster: Cluster) -> World:
    Cluster.objects.filter(pk=cluster.pk).update(mode="recommend")
    return build(NODE)


def test_nothing_is_written_before_a_person_agrees_and_all_is_done_after(world: World) -> None:
    workflow = fault(world, NODE)
    world.run(30)
    assert world.writes == [] and again(workflow).state == "waiting"
    services.approve(workflow.pk, "ann", world.clock.now())
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert Approval.objects.get().state == "approved"


def test_a_plan_that_changes_after_its_approval_waits_for_a_new_one(world: World) -> None:
    workflow = fault(world, NODE)
    services.approve(workflow.pk, "ann", world.clock.now())
    Workflow.objects.filter(pk=workflow.pk).update(
        plan=[
            {**item, "verb": "power_cycle", "ladder": ["power_cycle"]} if item["verb"] == "reboot" else item
            for item in workflow.plan
        ]
    )
    world.run(60)
    row = again(workflow)
    assert row.blocked_code == "approval" and "changed since it was approved" in row.blocked_text
    assert world.writes == []
    services.approve(workflow.pk, "bo", world.clock.now())
    assert world.run(200, lambda: again(workflow).state == "succeeded")


def test_a_harder_rung_of_the_approved_ladder_needs_no_new_approval(world: World) -> None:
    world.job_result = "failed"
    workflow = fault(world, NODE)
    services.approve(workflow.pk, "ann", world.clock.now())
    assert world.run(600, lambda: again(workflow).state == "repair")
    assert [verb for _, verb in world.resets] == ["ForceRestart", "PowerCycle"]


def test_a_rejected_plan_ends_with_its_reason(world: World) -> None:
    workflow = fault(world, NODE)
    with pytest.raises(services.Refused):
        services.reject(workflow.pk, "ann", " ", world.clock.now())
    services.reject(workflow.pk, "ann", "the job ends at six", world.clock.now())
    assert again(workflow).state == "cancelled" and "the job ends at six" in again(workflow).outcome
    with pytest.raises(services.Refused):
        services.approve(workflow.pk, "bo", world.clock.now())


def test_an_expired_request_ends_its_plan_and_the_fault_gets_a_fresh_one(world: World) -> None:
    workflow = fault(world, NODE)
    world.clock.tick(24 * 3600 + 1)
    with pytest.raises(services.Refused, match="expired"):
        services.approve(workflow.pk, "ann", world.clock.now())
    assert approving.expire(world.clock.now()) == 1
    assert again(workflow).state == "cancelled"
    [fresh] = planner.replan(world.cluster.pk, world.clock, "muster:sweep")
    services.approve(fresh, "ann", world.clock.now())


def test_a_raised_mode_discards_what_waited_and_asks_current_health(world: World, cluster: Cluster) -> None:
    workflow = fault(world, NODE)
    services.set_mode(cluster, "automate", "ann", world.clock.now(), world.clock)
    assert again(workflow).state == "cancelled" and Approval.objects.get().state == "withdrawn"
