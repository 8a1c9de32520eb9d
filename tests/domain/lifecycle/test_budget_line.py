"""Several drains wait for one budget: whoever finds room wakes the next, a few at a time."""

from __future__ import annotations

from collections import defaultdict
from datetime import timedelta
from typing import Any

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


def sleepy(world: World, begun: list[Workflow]) -> None:
    """They have waited long, and ask each half a minute."""
    world.run(150)
    assert {again(workflow).blocked_code for workflow in begun} == {"pdb"}


def test_whoever_finds_the_budget_open_wakes_the_next(build: Build) -> None:
    world, asked = crowded(build, FEW)
    begun = begin(world, FEW)
    sleepy(world, begun)
    world.budgets.clear()
    asked.clear()
    assert world.run(40, lambda: bool(asked))
    assert world.run(3, lambda: len(asked) == len(FEW)), "they slept while there was room"
    assert world.run(20, lambda: all(done(workflow) for workflow in begun))


def test_a_wave_is_bounded(build: Build) -> None:
    """A budget with room for one more must not make a whole fleet ask."""
    names = tuple(f"gpu-{number:02d}" for number in range(WOKEN + 6))
    world, _ = crowded(build, names)
    sleepy(world, begin(world, names))
    asleep = Workflow.objects.filter(blocked_code="pdb", wake_at__gt=world.clock.now() + timedelta(seconds=8))
    opens = asleep.order_by("wake_at").values_list("node__name", flat=True)[0]
    del world.budgets[f"cache-{opens}"]
    assert world.run(40, lambda: opens not in {workflow.node.name for workflow in _waiting()})
    woken = [workflow for workflow in _waiting() if workflow.wake_at and workflow.wake_at <= world.clock.now()]
    assert WOKEN - 2 <= len(woken) <= WOKEN


def test_a_budget_that_lets_one_go_after_the_other_is_asked_often_by_all(build: Build) -> None:
    """Each pod is replaced within seconds and makes room for one more: nobody sleeps half a minute for his turn."""
    world, _ = crowded(build, FEW)
    begun = begin(world, FEW)
    sleepy(world, begun)
    for left in range(len(FEW), 0, -1):
        for name in FEW:
            world.budgets.pop(f"cache-{name}", None)
        standing = [pod for pod in world.pods.values() if pod.deleting_since is None]
        for pod in standing[1:]:
            world.budgets[pod.name] = "serving/cache"  # room for the first alone
        assert world.run(40 if left == len(FEW) else 12, lambda at=left: _standing(world) < at)
    assert world.run(20, lambda: all(done(workflow) for workflow in begun))


def _standing(world: World) -> int:
    return sum(pod.deleting_since is None for pod in world.pods.values())


def _waiting() -> list[Workflow]:
    return list(Workflow.objects.filter(blocked_code="pdb").select_related("node"))


def test_drains_of_another_budget_and_those_that_moved_on_are_not_woken(build: Build) -> None:
    world, asked = crowded(build, FEW)
    world.budgets[f"cache-{FEW[2]}"] = "serving/other"
    begun = begin(world, FEW)
    sleepy(world, begun)
    late = world.clock.now() + timedelta(minutes=9)
    Workflow.objects.filter(pk=begun[1].pk).update(blocked_code="api_unreachable", wake_at=late)
    Workflow.objects.filter(pk=begun[2].pk).update(wake_at=late)
    del world.budgets[f"cache-{FEW[0]}"]
    asked.clear()
    assert world.run(40, lambda: done(begun[0]))
    assert {again(workflow).wake_at for workflow in begun[1:]} == {late} and list(asked) == [FEW[0]]
