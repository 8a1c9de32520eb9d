"""When workers have more to do than they can, work leaves sick nodes first; nothing is sent twice meanwhile."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle import engine, messages
from fleet.lifecycle.context import Ports
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import VERBS
from tests.domain.lifecycle.conftest import Build, fault
from tests.domain.lifecycle.world import TIMING, World

NAMES = ("gpu-01", "gpu-02")


@pytest.fixture
def world(build: Build) -> World:
    return build(*NAMES)


def _due(world: World, name: str, verb: str) -> Workflow:
    """A workflow at the step with that verb, due now."""
    workflow = fault(world, name)
    index = next(i for i, step in enumerate(workflow.plan) if step["verb"] == verb)
    Workflow.objects.filter(pk=workflow.pk).update(
        state="running", step=index, wake_at=world.clock.now(), blocked_code=""
    )
    return Workflow.objects.get(pk=workflow.pk)


def test_only_steps_on_an_empty_node_can_wait() -> None:
    first = {verb for verb in VERBS if verb not in messages.CAN_WAIT}
    assert first == {"hold", "drain", "fence", "return", "release"}


def test_what_waits_in_the_broker_is_not_sent_again_but_a_drain_is(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    drain, reboot = _due(world, NAMES[0], "drain"), _due(world, NAMES[1], "reboot")
    monkeypatch.setattr(engine, "later_waits", lambda: True)
    assert engine.claim_due(world.clock) == [(drain.pk, drain.version + 1)]
    monkeypatch.setattr(engine, "later_waits", lambda: False)
    assert engine.claim_due(world.clock) == [(reboot.pk, reboot.version + 1)]


def test_one_that_is_behind_its_last_step_is_never_kept_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow = _due(world, NAMES[0], "drain")
    Workflow.objects.filter(pk=workflow.pk).update(step=len(workflow.plan))
    monkeypatch.setattr(engine, "later_waits", lambda: True)
    assert [pk for pk, _ in engine.claim_due(world.clock)] == [workflow.pk]


def test_a_message_that_waited_longer_than_its_lease_is_not_taken_from_its_worker(world: World) -> None:
    """The lease ran out in the queue; the step that begins now has a whole one, so no tick takes it over."""
    workflow = _due(world, NAMES[0], "drain")
    world.clock.tick(40)
    taken_over: list[list[tuple[int, int]]] = []

    def ports_of(cluster: Cluster) -> Ports:
        taken_over.append(engine.claim_due(world.clock))
        return world.ports_of(cluster)

    assert engine.advance(workflow.pk, workflow.version, ports_of, world.clock, TIMING) != "stale"
    assert taken_over == [[]]
