"""What one person may skip, and what takes two: a drain that is skipped must not end work that a force may not."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Node
from fleet.lifecycle import forcing, manual, services
from fleet.lifecycle.models import Workflow
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.test_drain import NODE, put
from tests.domain.lifecycle.world import World, a_pod


@pytest.fixture
def world(build: Build) -> World:
    return put(build(NODE), a_pod("w-0", NODE, gang=""))


def asked(world: World, action: str) -> Workflow:
    (workflow,), _ = manual.request([Node.objects.get(name=NODE).pk], action, "minseo", "a test", world.clock.now())
    if workflow.needs_approval:
        services.approve(workflow.pk, "jiwoo", world.clock.now())
    return workflow


def at_drain(world: World, workflow: Workflow) -> None:
    world.budgets["w-0"] = "serving/cache"
    assert world.run(30, lambda: again(workflow).verb == "drain" and again(workflow).blocked_code == "pdb")


def skip(world: World, workflow: Workflow) -> None:
    services.skip_step(workflow.pk, "minseo", "it is urgent", world.clock.now())


@pytest.mark.parametrize("action", ["reboot", "power_cycle", "reset_gpu", "validate"])
def test_no_drain_is_skipped_by_one_person_while_what_follows_would_end_the_work(world: World, action: str) -> None:
    workflow = asked(world, action)
    at_drain(world, workflow)
    with pytest.raises(services.Refused, match="would end it without a word"):
        skip(world, workflow)
    world.run(120)
    assert again(workflow).verb == "drain" and world.resets == [] and "train/w-0" in world.pods


def test_a_fault_that_asks_for_people_is_no_exception(world: World) -> None:
    workflow = fault(world, NODE, cause="remapped-rows", action_class="replace_part")
    at_drain(world, workflow)
    with pytest.raises(services.Refused, match="would end it without a word"):
        skip(world, workflow)


def test_a_drain_that_waits_for_room_is_not_taken_out_past_its_cap_by_a_skip(world: World) -> None:
    world.budgets.clear()
    workflow = fault(world, NODE)
    Workflow.objects.filter(pk=workflow.pk).update(step=1, state="blocked", blocked_code="cap_take_out")
    with pytest.raises(services.Refused, match="would end it without a word"):
        skip(world, again(workflow))


def test_a_drain_after_which_the_node_is_only_kept_may_be_skipped(world: World) -> None:
    workflow = asked(world, "drain")
    at_drain(world, workflow)
    skip(world, workflow)
    assert world.run(30, lambda: again(workflow).verb == "keep")
    assert "train/w-0" in world.pods


def test_a_drain_of_a_node_without_work_may_be_skipped(world: World) -> None:
    workflow = asked(world, "reboot")
    at_drain(world, workflow)
    Node.objects.filter(name=NODE).update(pods=0)  # the owner ended it, as the observer sees
    world.pods.clear()
    skip(world, workflow)
    assert world.run(120, lambda: again(workflow).state == "succeeded")


def test_an_agreement_that_ran_out_or_was_refused_allows_no_skip(world: World) -> None:
    workflow = asked(world, "reboot")
    at_drain(world, workflow)
    forcing.force_drain(workflow.pk, "minseo", "a test", world.clock.now())
    services.reject(workflow.pk, "jiwoo", "the owner says no", world.clock.now())
    with pytest.raises(services.Refused, match="would end it without a word"):
        skip(world, workflow)
