"""The engine dies between any two lines, messages come twice, and no op is done twice.

Hypothesis chooses where it dies and what is delivered again; the invariants are checked after every second.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from django.apps import apps
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fleet.inventory.models import Cluster
from fleet.lifecycle import engine, fence, grants, intents
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.steps import moves
from fleet.policy.models import Cap
from tests.builders import TestClock, a_bmc, a_cluster, a_node
from tests.domain.lifecycle.conftest import again, default_caps, fault
from tests.domain.lifecycle.world import Crash, World, a_pod

PLACES = (
    "before hold", "after hold", "after evict", "before reset", "after reset", "after job", "before release",
    "after release", "before write", "after write", "after intent", "before resolve",
)  # fmt: skip
NAMES = ("gpu-r01-01", "gpu-r01-02", "gpu-r01-03")


class Chaos:
    """Dies at the chosen places, each once; `nth` chooses which visit of the place."""

    def __init__(self, plan: dict[str, int]) -> None:
        self.left = dict(plan)
        self.visits: Counter[str] = Counter()

    def __call__(self, place: str) -> None:
        self.visits[place] += 1
        if self.left.get(place) == self.visits[place]:
            del self.left[place]
            raise Crash(place)


def instrument(monkeypatch: pytest.MonkeyPatch, chaos: Chaos) -> None:
    """Crash points around every write of the engine, beside those in the fakes."""
    real_write, real_begin, real_resolve = fence.write, intents.begin, intents.resolve

    def write(*args: Any, **kwargs: Any) -> None:
        chaos("before write")
        real_write(*args, **kwargs)
        chaos("after write")

    def begin(*args: Any, **kwargs: Any) -> Intent:
        intent = real_begin(*args, **kwargs)
        chaos("after intent")
        return intent

    def resolve(*args: Any, **kwargs: Any) -> None:
        chaos("before resolve")
        real_resolve(*args, **kwargs)

    from fleet.lifecycle import persist

    for module in (persist, intents, moves):
        monkeypatch.setattr(module, "write", write)
    monkeypatch.setattr(intents, "begin", begin)
    monkeypatch.setattr(intents, "resolve", resolve)


def check(world: World) -> None:
    """What must hold at every instant."""
    assert len(world.boots_at) <= 2, "more than two of the rack are rebooting"
    taken = Counter(name for name, _ in world.resets)
    done = Counter(
        Intent.objects.filter(verb="reset").exclude(outcome="refused").values_list("workflow__node__name", flat=True)
    )
    for name, count in taken.items():
        assert count <= done[name], f"{name} was reset without an intent"
        assert count <= 1, f"{name} was reset {count} times for one fault"


def live(world: World, seconds: int, again_every: int) -> None:
    """Seconds pass; a crash loses the queue and whatever was in memory, never the database."""
    for second in range(seconds):
        world.clock.tick(1)
        world.settle()
        with suppress(Crash):
            world.work()
        if again_every and second % again_every == 0:
            world.queue += [(w.pk, w.version) for w in Workflow.objects.all()]
            with suppress(Crash):
                world.deliver()
        check(world)
        if not Workflow.objects.exclude(state="succeeded").exists():
            return


@settings(
    max_examples=int(os.environ.get("MUSTER_SCHEDULES", "4")),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(
    plan=st.dictionaries(st.sampled_from(PLACES), st.integers(1, 8), max_size=5),
    again_every=st.sampled_from([0, 1, 3]),
)
@pytest.mark.django_db
def test_no_crash_loses_or_repeats_an_action(plan: dict[str, int], again_every: int) -> None:
    chaos = Chaos(plan)
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        clock = TestClock()
        cluster: Cluster = a_cluster()
        for name in NAMES:
            a_bmc(a_node(cluster, name))
        default_caps.fill(apps, None)
        Cap.objects.exclude(scope="rack").delete()
        world = World(cluster, clock)
        world.crash = chaos
        for module in (engine, grants):
            patch.setattr(module, "send", world.send)
        instrument(patch, chaos)
        for name in NAMES:
            world.pods[f"train/p-{name}"] = a_pod(f"p-{name}", name)
        workflows = [fault(world, name) for name in NAMES]
        live(world, 260, again_every)
        assert {again(w).state for w in workflows} == {"succeeded"}
        assert len(world.resets) == len(NAMES)
        assert not any(node.unschedulable for node in world.nodes.values())
        transaction.set_rollback(True)
