"""The wall clock is set back by hours: nothing sleeps until a time written before, and nothing is done twice."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle import clock_back, intents
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
HOURS = -3 * 3600


def swept(world: World, seconds: int, workflow: Workflow, state: str = "succeeded") -> bool:
    """Time passes with its ticks and its sweeps."""
    for _ in range(seconds // 10):
        clock_back.mend(world.clock.now())
        if world.run(10, lambda: again(workflow).state == state):
            return True
    return False


@pytest.mark.parametrize("after", [1, 8, 30])
def test_a_clock_set_back_by_hours_delays_no_workflow_whatever_it_was_doing(build: Build, after: int) -> None:
    world = build(NODE)
    pod = a_pod("w-0", NODE)
    world.pods[pod.key] = pod
    workflow = fault(world, NODE)
    world.run(after)
    world.clock.step(HOURS)
    world.boots_at = {name: at + timedelta(seconds=HOURS) for name, at in world.boots_at.items()}
    world.pods = {}
    assert swept(world, 150, workflow), again(workflow).blocked_text
    assert world.resets == [(NODE, "ForceRestart")]


def test_a_reset_without_an_answer_is_observed_and_not_sent_again_after_the_clock_was_set_back(build: Build) -> None:
    world = build(NODE)
    world.bmc[NODE] = "no_answer"
    workflow = fault(world, NODE)
    assert world.run(60, lambda: bool(world.resets))
    world.clock.step(HOURS)
    world.boots_at = {name: at + timedelta(seconds=HOURS) for name, at in world.boots_at.items()}
    assert swept(world, 150, workflow), again(workflow).blocked_text
    assert len(world.resets) == 1


def test_a_call_that_may_be_under_way_has_its_whole_time_again(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    now = world.clock.now()
    step = Step.objects.create(workflow=workflow, index=2, attempt=1, verb="reboot", started_at=now)
    Step.objects.filter(pk=step.pk).update(deadline=now + timedelta(minutes=10))
    intent = Intent.objects.create(
        workflow=workflow, step=step, verb="reset", target="x", bmc_id=7, created_at=now,
        call_deadline=now + timedelta(seconds=6),
    )  # fmt: skip
    world.clock.step(HOURS)
    now = world.clock.now()
    assert intents.seconds_left(intent, now) == 0.0, "who wrote it before the clock was set back sends nothing"
    assert clock_back.mend(now) == 3, "the call, its step, and since when the cluster is connected"
    intent.refresh_from_db()
    step.refresh_from_db()
    assert (intent.created_at, intent.call_deadline) == (now, now + timedelta(seconds=6))
    assert (step.started_at, step.deadline) == (now, now + timedelta(minutes=10))
    assert clock_back.mend(now) == 0


def test_new_faults_are_no_history_after_the_clock_was_set_back(build: Build, cluster: Cluster) -> None:
    """Evidence older than the connection or the last remediation is history: neither may lie in the future."""
    world = build(NODE)
    now = world.clock.now()
    NodeLifecycle.objects.filter(node__name=NODE).update(remediated_at=now)
    Cluster.objects.filter(pk=cluster.pk).update(connected_at=now)
    world.clock.step(HOURS)
    now = world.clock.now()
    clock_back.mend(now)
    assert NodeLifecycle.objects.get(node__name=NODE).remediated_at == now
    assert Cluster.objects.get(pk=cluster.pk).connected_at == now


@pytest.mark.parametrize("seconds", [0.0, 10.0, 900.0, 1e5, 1e12])
def test_nothing_sleeps_longer_than_what_counts_as_due(build: Build, seconds: float) -> None:
    now = build().clock.now()
    assert now <= clock_back.soonest(now, seconds) <= now + clock_back.LONGEST
