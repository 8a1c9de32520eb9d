"""Whatever runs on a node, whoever else ends it, wherever the engine dies: a drain only evicts, and ends or says why.

Hypothesis draws the pods, their budgets and finalizers, who deletes what behind our back, and where we crash.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.lifecycle import engine, grants
from fleet.lifecycle.models import Step, Workflow
from fleet.policy.models import Cap
from fleet.ports.cluster import PodSeen
from tests.builders import TestClock, a_bmc, a_cluster, a_node
from tests.domain.lifecycle.conftest import again, fault
from tests.domain.lifecycle.test_crashes import Chaos, instrument
from tests.domain.lifecycle.world import Crash, World, a_pod

NODE = "gpu-r01-01"
PLACES = ("before evict", "after evict", "before write", "after write", "after intent", "before resolve", "after hold")
LAST = 260
"""Seconds: grace periods, their margin, and the longest back-off between two rounds."""


@dataclasses.dataclass(frozen=True)
class Drawn:
    """One pod and its fate: a budget that yields at a second (None: never), somebody who deletes it at another."""

    kind: str
    phase: str
    gang: str
    grace: int
    stuck: bool
    budget: str
    yields: int | None
    taken: int | None


pods = st.builds(
    Drawn,
    st.sampled_from(["workload", "workload", "bare", "daemonset", "mirror"]),
    st.sampled_from(["Running", "Running", "Pending", "Succeeded", "Failed"]),
    st.sampled_from(["", "train/a", "train/b"]),
    st.sampled_from([0, 3, 30]),
    st.booleans(),
    st.sampled_from(["", "", "x/one", "x/two"]),
    st.none() | st.integers(1, 60),
    st.none() | st.integers(1, 60),
)


def stays(pod: PodSeen) -> bool:
    return pod.kind in ("daemonset", "mirror") or pod.finished


class Watched(World):
    """A world that keeps what was evicted, pod by pod, and refuses to believe in anything else."""

    def watch(self) -> None:
        self.gone: Counter[str] = Counter()

    def evict(self, pod: PodSeen) -> None:
        assert self.nodes[pod.node].unschedulable, "an eviction from a node that takes work"
        assert not stays(pod), f"{pod.kind} {pod.phase} was evicted"
        before = len(self.writes)
        try:
            super().evict(pod)
        finally:
            self.gone[pod.uid] += len(self.writes) - before


def live(world: Watched, drawn: list[Drawn], again_every: int) -> None:
    for second in range(0, LAST, 2):
        world.clock.tick(2)
        world.settle()
        for number, one in enumerate(drawn):
            if one.yields in (second, second + 1):
                world.budgets.pop(f"p-{number}", None)
            pod = world.pods.get(f"train/p-{number}")
            if one.taken in (second, second + 1) and pod is not None and pod.deleting_since is None:
                world.pods[pod.key] = dataclasses.replace(
                    pod, deleting_since=world.clock.now(), disruption="DeletionByTaintManager"
                )
        with suppress(Crash):
            world.work()
        if again_every and second // 2 % again_every == 0:
            world.queue += [(w.pk, w.version) for w in Workflow.objects.all()]
            with suppress(Crash):
                world.deliver()
        if Step.objects.filter(verb="drain", state="done").exists():
            return


@settings(
    max_examples=int(os.environ.get("MUSTER_SCHEDULES", "6")), deadline=None, suppress_health_check=list(HealthCheck)
)
@given(
    drawn=st.lists(pods, max_size=7),
    plan=st.dictionaries(st.sampled_from(PLACES), st.integers(1, 6), max_size=4),
    again_every=st.sampled_from([0, 1, 3]),
    severity=st.sampled_from(["unhealthy", "degraded"]),
)
@pytest.mark.django_db
def test_a_drain_only_evicts_and_ends_or_says_why(
    drawn: list[Drawn], plan: dict[str, int], again_every: int, severity: str
) -> None:
    chaos = Chaos(plan)
    with pytest.MonkeyPatch.context() as patch, transaction.atomic():
        world = set_up(drawn, patch, chaos)
        workflow = fault(world, NODE, severity=severity)
        live(world, drawn, again_every)
        check_writes(world)
        check_end(world, drawn, again(workflow))
        transaction.set_rollback(True)


def set_up(drawn: list[Drawn], patch: pytest.MonkeyPatch, chaos: Chaos) -> Watched:
    cluster = a_cluster()
    a_bmc(a_node(cluster, NODE))
    Cap.objects.all().delete()
    world = Watched(cluster, TestClock())
    world.watch()
    world.crash = chaos
    for module in (engine, grants):
        patch.setattr(module, "send", world.send)
    instrument(patch, chaos)
    for number, one in enumerate(drawn):
        marks: dict[str, Any] = {"kind": one.kind, "phase": one.phase, "gang": one.gang, "grace_seconds": one.grace}
        pod = a_pod(f"p-{number}", NODE, finalizers=("x/y",) if one.stuck else (), owner="Job/x", **marks)
        world.pods[pod.key] = pod
        if one.budget:
            world.budgets[pod.name] = one.budget
    return world


def check_writes(world: Watched) -> None:
    kinds = {write.split()[0] for write in world.writes}
    assert "delete" not in kinds
    assert all(count == 1 for count in world.gone.values() if count), "a pod was evicted twice"


def check_end(world: Watched, drawn: list[Drawn], workflow: Workflow) -> None:
    step = Step.objects.get(workflow=workflow, verb="drain")
    kept = {
        f"p-{number}"
        for number, one in enumerate(drawn)
        if f"p-{number}" in world.budgets
        and not stays(a_pod("x", NODE, kind=one.kind, phase=one.phase))
        and (pod := world.pods.get(f"train/p-{number}")) is not None
        and pod.deleting_since is None
    }
    if kept:
        assert workflow.blocked_code == "pdb" and workflow.blocked_until is not None
        assert sum(name in workflow.blocked_text for name in kept) >= min(len(kept), 1)
        assert all(budget in workflow.blocked_text for budget in {world.budgets[name] for name in kept})
        return
    assert step.state == "done", f"{step.state}: {step.text}; {workflow.blocked_code}: {workflow.blocked_text}"
    left = [pod for pod in world.pods.values() if not stays(pod)]
    assert all(pod.finalizers and pod.deleting_since for pod in left), "a drain that ended left work that could go"
    assert not left or left[0].key in step.text or "more" in step.text
