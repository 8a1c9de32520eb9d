"""A node that fails again within a day was not mended: the verb that returned it is told so."""

from __future__ import annotations

from datetime import timedelta

import pytest

from fleet.lifecycle import effectiveness
from fleet.lifecycle.models import Remedy
from tests.builders import T0, a_cluster, a_node, a_workflow
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.world import World

NODES = ("gpu-r01-01", "gpu-r01-02")


@pytest.fixture
def world(build: Build) -> World:
    return build(*NODES)


def heal(world: World, name: str, cause: str = "xid-79") -> None:
    workflow = fault(world, name, cause=cause)
    assert world.run(300, lambda: again(workflow).state == "succeeded")


def test_a_fault_that_is_back_within_a_day_counts_against_the_reboot(world: World) -> None:
    for name in NODES:
        heal(world, name)
    assert effectiveness.bounces([world.cluster.pk], world.clock.now()) == {"reboot": (0, 2)}
    world.clock.tick(23 * 3600)
    fault(world, NODES[0])
    assert effectiveness.bounces([world.cluster.pk], world.clock.now()) == {"reboot": (1, 2)}


@pytest.mark.parametrize(("later", "cause"), [(timedelta(hours=25), "xid-79"), (timedelta(hours=1), "xid-48")])
def test_a_later_fault_or_another_one_does_not(world: World, later: timedelta, cause: str) -> None:
    heal(world, NODES[0])
    world.clock.tick(later.total_seconds())
    fault(world, NODES[0], cause=cause)
    assert effectiveness.bounces(None, world.clock.now()) == {"reboot": (0, 1)}


@pytest.mark.django_db
def test_each_verb_and_cluster_is_counted_by_itself_and_nothing_older_than_the_window() -> None:
    here, there = a_cluster(), a_cluster("other")
    made = [
        (here, "reboot", Remedy.BOUNCED, 1), (here, "reboot", Remedy.HELD, 1), (here, "reboot", Remedy.FAILED, 1),
        (here, "reset_gpu", Remedy.HELD, 89), (here, "reset_gpu", Remedy.BOUNCED, 91),
        (there, "reboot", Remedy.BOUNCED, 1),
    ]  # fmt: skip
    for number, (cluster, verb, result, days) in enumerate(made):
        workflow = a_workflow(a_node(cluster, f"n{number}"), state="succeeded")
        Remedy.objects.create(
            workflow=workflow, attempt=1, node_id=workflow.node_id, cluster_id=cluster.pk, verb=verb, cause="xid-79",
            result=result, ended_at=T0 - timedelta(days=days),
        )  # fmt: skip
    assert effectiveness.bounces([here.pk], T0) == {"reboot": (1, 3), "reset_gpu": (0, 1)}
    assert effectiveness.bounces(None, T0) == {"reboot": (2, 4), "reset_gpu": (0, 1)}
    assert effectiveness.bounces([], T0) == {}
