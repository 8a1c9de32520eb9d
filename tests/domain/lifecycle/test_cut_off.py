"""An API server that does not answer for hours costs time, and nothing else: no deadline counts against a node."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Workflow
from fleet.ports.cluster import NodeSeen
from fleet.ports.errors import TemporaryError
from fleet.tickets.models import Ticket
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
HOURS = 30 * 3600  # more than any step's own deadline


def cut_off_at(world: World, workflow: Workflow, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server falls silent as soon as the workflow is at `verb`, for hours, and answers in the end."""
    plain = world.node

    def silent(name: str) -> NodeSeen:
        if again(workflow).verb == verb:
            raise TemporaryError("https://k8s gave no complete answer to get nodes.", code="api_timeout")
        return plain(name)

    with monkeypatch.context() as cut:
        cut.setattr(world, "node", silent)
        assert world.run(120, lambda: again(workflow).blocked_code == "api_timeout")
        for _ in range(3):
            world.clock.tick(HOURS / 3)
            world.run(3)
        Cluster.objects.update(observer_until=world.clock.now() + timedelta(days=1))  # it goes on all the time
        assert (again(workflow).verb, again(workflow).blocked_code) == (verb, "api_timeout")


@pytest.mark.parametrize("verb", ["drain", "reboot", "validate", "soak"])
def test_after_hours_of_silence_the_step_goes_on_and_nothing_is_done_twice(
    build: Build, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    world = build(NODE)
    world.pods["train/p"] = a_pod("p", NODE)
    workflow = fault(world, NODE)
    cut_off_at(world, workflow, verb, monkeypatch)
    assert world.run(120, lambda: again(workflow).state == "succeeded"), again(workflow).blocked_text
    assert world.resets == [(NODE, "ForceRestart")] and not Ticket.objects.exists()
    assert again(workflow).attempt == 1
