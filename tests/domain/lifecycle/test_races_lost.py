"""A race that is lost again and again is tried less and less often, and says what it loses against."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from fleet.lifecycle.models import Intent
from fleet.ports.errors import Conflict
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"


def losing(world: World, verb: str, times: int) -> list[float]:
    """The node changes between our reading and our writing, `times` times in a row; returns when we wrote."""
    act, tried = getattr(world, verb), []

    def lose(*args: Any, **kwargs: Any) -> Any:
        tried.append(world.clock.monotonic())
        if len(tried) > times:
            return act(*args, **kwargs)
        raise Conflict("the object has been modified")

    setattr(world, verb, lose)
    return tried


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_a_race_that_is_always_lost_keeps_no_worker_and_no_log_busy(build: Build, verb: str) -> None:
    """Two kubelets of one name write one node all the time: each try would be an intent and two entries of the log."""
    world = build(NODE)
    tried = losing(world, verb, 10**6)
    workflow = fault(world, NODE)
    assert world.run(120, lambda: len(tried) > 3)
    world.run(600)
    gaps = [later - sooner for sooner, later in itertools.pairwise(tried)]
    assert len(tried) < 25 and gaps[-1] >= 60 and gaps == sorted(gaps)
    assert Intent.objects.filter(workflow=workflow, verb=verb).count() == len(tried)
    assert "changed while" in again(workflow).steps.latest("started_at").text


@pytest.mark.parametrize("verb", ["hold", "release"])
def test_a_race_that_is_lost_a_few_times_costs_no_time(build: Build, verb: str) -> None:
    world = build(NODE)
    tried = losing(world, verb, 3)
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert len(tried) == 4 and tried[-1] - tried[0] < 1
