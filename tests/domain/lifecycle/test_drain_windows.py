"""A drain lasts: a freeze that begins meanwhile, or a window that closes, ends its evictions until its time is over."""

from __future__ import annotations

from datetime import time, timedelta
from typing import Any

import pytest

from fleet.lifecycle.models import Step
from fleet.policy.models import Window
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
LASTS = timedelta(minutes=20)


@pytest.fixture
def world(build: Build) -> World:
    """One pod of the node may go, a budget keeps the other."""
    found = build(NODE)
    for pod in (a_pod("w-0", NODE), a_pod("cache-7", NODE, gang="", owner="ReplicaSet/cache")):
        found.pods[pod.key] = pod
    found.budgets["cache-7"] = "serving/cache"
    return found


def asked(world: World) -> list[str]:
    """Names of the pods whose eviction is asked for from now on."""
    names: list[str] = []
    evict = world.evict

    def counting(pod: Any) -> None:
        names.append(pod.name)
        evict(pod)

    world.evict = counting  # type: ignore[method-assign]
    return names


def untimely(world: World, kind: str, passes: bool = False) -> None:
    """A freeze from now on, or a window that has just closed, for twenty minutes."""
    now = world.clock.now()
    facts: dict[str, Any] = {"zone": "UTC", "created_at": now, "urgent_passes": passes}
    if kind == "freeze":
        dates = {"begins": now - timedelta(minutes=1), "ends": now + LASTS}
        Window.objects.create(kind=kind, name="quarter end", start=time(0), minutes=1440, **dates, **facts)
    else:
        opens = (now + LASTS).time().replace(microsecond=0)
        Window.objects.create(kind="opening", name="works", start=opens, minutes=120, **facts)


@pytest.mark.parametrize(("kind", "code"), [("freeze", "freeze"), ("opening", "window")])
def test_nothing_more_is_evicted_until_it_is_over(world: World, kind: str, code: str) -> None:
    workflow = fault(world, NODE)
    assert world.run(30, lambda: again(workflow).blocked_code == "pdb")
    untimely(world, kind)
    world.budgets.clear()  # there is room now, but not the time
    names = asked(world)
    world.run(300)
    row = again(workflow)
    assert names == [] and row.blocked_code == code and row.blocked_until is not None
    assert world.nodes[NODE].unschedulable and state_of(NODE) == "draining"
    assert world.run(1300, lambda: Step.objects.filter(workflow=workflow, verb="drain", state="done").exists())
    assert names == ["cache-7"]


def test_what_is_urgent_goes_on_where_the_freeze_lets_it(world: World) -> None:
    workflow = fault(world, NODE)
    assert world.run(30, lambda: again(workflow).blocked_code == "pdb")
    untimely(world, "freeze", passes=True)
    world.budgets.clear()
    assert world.run(60, lambda: Step.objects.filter(workflow=workflow, verb="drain", state="done").exists())


def test_pods_that_are_ending_already_end_in_a_freeze_too(world: World) -> None:
    world.budgets.clear()
    workflow = fault(world, NODE)
    assert world.run(30, lambda: all(pod.deleting_since for pod in world.pods.values() if pod.node == NODE))
    untimely(world, "freeze")
    assert world.run(200, lambda: Step.objects.filter(workflow=workflow, verb="drain", state="done").exists())
    world.run(60)
    assert world.resets == [] and again(workflow).blocked_code == "freeze"
