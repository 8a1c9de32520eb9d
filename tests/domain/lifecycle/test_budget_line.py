"""Several drains wait for one budget: the first of them asks it, and wakes the others when there is room."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.steps.budget_line import WOKEN
from fleet.policy.models import BreakerRule, Cap
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World, a_pod

FEW = ("gpu-01", "gpu-02", "gpu-03")
Asked = dict[str, list[float]]


def crowded(build: Build, names: tuple[str, ...]) -> tuple[World, Asked]:
    """A pod of one Deployment on each node, all kept by one budget; and when each was asked for."""
    world, asked = build(*names, fleet=0), defaultdict(list)
    Cap.objects.all().delete()
    BreakerRule.objects.update(enabled=False)
    for name in names:
        pod = a_pod(f"cache-{name}", name, gang="", owner="ReplicaSet/cache", labels={"app": "cache"})
        world.pods[pod.key] = pod
        world.budgets[pod.name] = "serving/cache"
    evict = world.evict

    def counting(pod: Any) -> None:
        asked[pod.node].append(world.clock.monotonic())
        evict(pod)

    world.evict = counting  # type: ignore[method-assign]
    return world, asked


def begin(world: World, names: tuple[str, ...]) -> list[Workflow]:
    """One after the other, so that the line is known."""
    begun = []
    for name in names:
        begun.append(fault(world, name))
        assert world.run(20, lambda: again(begun[-1]).blocked_code == "pdb")
    return begun


def done(workflow: Workflow) -> bool:
    return Step.objects.filter(workflow=workflow, verb="drain", state="done").exists()


def test_only_the_longest_waiting_asks_often(build: Build) -> None:
    world, asked = crowded(build, FEW)
    begin(world, FEW)
    asked.clear()
    world.run(28)
    assert len(asked[FEW[0]]) >= 2 and all(len(asked[name]) <= 1 for name in FEW[1:])


def test_whoever_finds_the_budget_open_wakes_the_next(build: Build) -> None:
    world, asked = crowded(build, FEW)
    begun = begin(world, FEW)
    world.run(3)
    world.budgets.clear()
    assert world.run(40, lambda: bool(asked[FEW[0]]) and done(begun[0]))
    assert world.run(6, lambda: all(done(workflow) for workflow in begun)), "they slept while there was room"


def test_one_in_front_that_waits_for_another_budget_too_keeps_nobody_asleep(build: Build) -> None:
    world, _ = crowded(build, FEW)
    other = a_pod("db-0", FEW[0], gang="", owner="StatefulSet/db", labels={"app": "db"})
    world.pods[other.key], world.budgets["db-0"] = other, "serving/db"
    begun = begin(world, FEW)
    for name in FEW[1:]:
        del world.budgets[f"cache-{name}"]  # the budget lets go all but what the first in line has
    assert world.run(45, lambda: all(done(workflow) for workflow in begun[1:]))
    assert again(begun[0]).blocked_code == "pdb"


def test_a_wave_is_bounded(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    """A budget with room for one more must not make a whole fleet ask."""
    names = tuple(f"gpu-{number:02d}" for number in range(WOKEN + 4))
    world, asked = crowded(build, names)
    begun = begin(world, names)
    first = begun[0].node.name
    world.run(1)
    del world.budgets[f"cache-{first}"]
    asked.clear()
    assert world.run(40, lambda: done(begun[0]))
    world.run(2)
    assert sum(len(times) for name, times in asked.items() if name != first) <= WOKEN + 4


def test_drains_of_another_budget_are_not_woken(build: Build) -> None:
    world, asked = crowded(build, FEW)
    world.budgets[f"cache-{FEW[2]}"] = "serving/other"
    begun = begin(world, FEW)
    world.run(1)
    del world.budgets[f"cache-{FEW[0]}"], world.budgets[f"cache-{FEW[1]}"]
    before = len(asked[FEW[2]])
    assert world.run(40, lambda: done(begun[1]))
    assert again(begun[2]).blocked_code == "pdb" and len(asked[FEW[2]]) - before <= 5
