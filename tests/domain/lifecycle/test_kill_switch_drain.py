"""The kill switch between two evictions of one drain."""

from __future__ import annotations

import pytest

from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.test_kill_switch import NAME, throw
from tests.domain.lifecycle.world import a_pod


def test_between_two_evictions(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the round that is under way may be on their way; no later one is sent."""
    world = build(NAME)
    for number in range(9):
        world.pods[f"train/p{number}"] = a_pod(f"p{number}", NAME)
    evict, sent = world.evict, []

    def then_stop(pod: object) -> None:
        sent.append(pod)
        evict(pod)  # type: ignore[arg-type]
        throw(world)

    monkeypatch.setattr(world, "evict", then_stop)
    workflow = fault(world, NAME)
    world.run(1, lambda: bool(sent))
    world.run(5)
    done = len(sent)
    assert done < 9
    world.run(120)
    assert len(sent) == done and world.resets == []
    assert again(workflow).blocked_code == "stopped"
    assert "minseo: no reason was given yet" in again(workflow).blocked_text
