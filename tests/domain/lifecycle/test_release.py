"""A hold that the API server says is off: it is off when the node says so."""

from __future__ import annotations

import pytest

from fleet.lifecycle import services
from fleet.lifecycle.models import Intent
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"


@pytest.fixture
def world(build: Build) -> World:
    found = build(NODE)
    found.lies.add("release")
    return found


def test_a_release_that_had_no_effect_is_said_and_asked_for_again(world: World) -> None:
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).blocked_code == "not_released")
    said = again(workflow)
    assert "said yes 1 times, and our hold still stands" in said.blocked_text and said.blocked_until is not None
    assert state_of(NODE) == "soaking" and world.nodes[NODE].unschedulable
    world.run(60)
    tries = Intent.objects.filter(verb="release", outcome="expired").count()
    assert 3 <= tries <= 6, "less and less often"
    world.lies.clear()
    assert world.run(60, lambda: again(workflow).state == "succeeded")
    assert not world.nodes[NODE].unschedulable and state_of(NODE) == "in_service"
    assert Intent.objects.filter(verb="release", outcome="done", text="Uncordoned.").count() == 1


def test_an_abort_whose_release_had_no_effect_does_not_end(world: World) -> None:
    workflow = fault(world, NODE)
    assert world.run(20, lambda: world.nodes[NODE].unschedulable)
    services.abort(workflow.pk, "ann", "a mistake", world.clock.now())
    assert world.run(60, lambda: again(workflow).blocked_code == "not_released")
    world.lies.clear()
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert not world.nodes[NODE].annotations


def test_a_mark_that_stays_on_a_node_that_was_taken_back_is_not_forgotten(world: World) -> None:
    workflow = fault(world, NODE)
    assert world.run(20, lambda: world.nodes[NODE].unschedulable)
    world.change(NODE, unschedulable=False)
    assert world.run(60, lambda: again(workflow).blocked_code == "not_released")
    world.lies.clear()
    assert world.run(60, lambda: again(workflow).state == "cancelled")
    assert not world.nodes[NODE].annotations and state_of(NODE) == "released"
