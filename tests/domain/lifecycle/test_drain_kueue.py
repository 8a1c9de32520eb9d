"""A Kueue workload that Kueue places by topology loses one node at a time; what it only admits is drained as ever."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import connection

from fleet.gangs.models import GangRow
from fleet.inventory.models import Node
from fleet.lifecycle import forcing, services, workloads_apart
from fleet.lifecycle.context import Context
from fleet.lifecycle.models import GangInterruption, NodeLifecycle, Step, Workflow
from fleet.policy.models import Claim
from fleet.readmodels.reasons import CATALOGUE, parts_of
from tests.domain.lifecycle.conftest import Build, again, fault
from tests.domain.lifecycle.test_drain import drain_of, put
from tests.domain.lifecycle.test_drain_jobs import GANG, NODES, evicted_at, gang_on, planned_drain
from tests.domain.lifecycle.world import TIMING, Crash, World, a_pod
from tests.gang_builders import a_member
from tests.gang_rows import a_gang_row

TAS = {"kueue.x-k8s.io/tas": "true"}
WORKLOAD = {"system": "kueue", "kind": "Workload", "namespace": "train", "name": "job-llm-1a2b", "phase": "Admitted"}


def kueue_on(build: Build, *names: str, labels: dict[str, str] | None = None, **said: Any) -> World:
    """One workload on these nodes, as the observer wrote it; by topology unless told."""
    world = gang_on(build, *names, labels=TAS if labels is None else labels)
    seen(world, *names, **{"by_topology": True, **said})
    return world


def seen(world: World, *names: str, state: str = "running", placed: int | None = None, **said: Any) -> GangRow:
    """What the observer says of the workload now."""
    GangRow.objects.all().delete()
    count = len(names) if placed is None else placed
    pods = {name: f"train/w-{n}" for n, name in enumerate(NODES)}
    members = [[pods.get(name, f"train/on-{name}"), name, "ready", "worker", 8, "", "", ""] for name in names]
    kueue = {**WORKLOAD, "said": [], **said}
    return a_gang_row(
        world.cluster, placed=count, minimum=len(NODES), wanted=len(names) if placed is None else len(NODES),
        state=state, nodes=list(names), members=members, objects_seen=[kueue],
    )  # fmt: skip


def moves(world: World, gone: str, to: str) -> None:
    """Kueue puts the pods of one node on another, which the observer sees."""
    nodes = [to if name == gone else name for name in GangRow.objects.get().nodes]
    seen(world, *nodes, by_topology=True)


def held_back(workflow: Any) -> str:
    """The sentence of a drain that waits for its workload; it has to be one that the catalogue knows."""
    row = again(workflow)
    assert row.blocked_code == workloads_apart.CODE, (row.blocked_code, row.blocked_text)
    assert row.blocked_until is not None
    assert parts_of(CATALOGUE[workloads_apart.CODE], row.blocked_text), row.blocked_text
    return str(row.blocked_text)


def test_the_second_node_waits_until_the_workload_is_whole_again(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone = evicted_at(world)
    first, second = planned_drain(world, NODES[0]), planned_drain(world, NODES[1])
    world.run(20)
    assert set(gone) == {"w-0"}, "one of them begins at once and waits for no partner"
    assert f"{again(first).label} " in held_back(second) and NODES[0] in again(second).blocked_text
    assert not Claim.objects.filter(workflow_id=second.pk, kind="take_out", released_at=None).exists()
    seen(world, NODES[1], state="partial", placed=1, by_topology=True)
    world.run(300)
    assert set(gone) == {"w-0"} and "not whole again yet" in held_back(second)


def test_a_workload_that_is_whole_again_goes_on_after_its_gang_has_rested(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone = evicted_at(world)
    planned_drain(world, NODES[0])
    second = planned_drain(world, NODES[1])
    world.run(20)
    moves(world, NODES[0], "other-001")
    world.run(120)
    assert again(second).blocked_code == "gang_resting", "it is a gang all the same, and is not interrupted twice"
    assert world.run(900, lambda: "w-1" in gone)
    assert gone["w-1"] - gone["w-0"] >= 600


def test_what_kueue_only_admitted_is_drained_together(build: Build) -> None:
    world = kueue_on(build, *NODES[:2], labels={"kueue.x-k8s.io/queue-name": "train"}, by_topology=False)
    gone = evicted_at(world)
    for name in NODES[:2]:
        planned_drain(world, name)
    world.run(60)
    assert set(gone) == {"w-0", "w-1"} and abs(gone["w-0"] - gone["w-1"]) <= 5


def test_a_node_that_kueue_calls_unhealthy_is_the_one_that_is_out(build: Build) -> None:
    world = kueue_on(build, *NODES[:2], unhealthy=[NODES[1]])
    gone = evicted_at(world)
    healthy, sick = planned_drain(world, NODES[0]), planned_drain(world, NODES[1])
    world.run(30)
    assert set(gone) == {"w-1"}, "it is lost to its workload already, so that its drain takes nothing more"
    assert "drains" in held_back(healthy) or "unhealthy" in held_back(healthy)
    assert again(sick).blocked_code != workloads_apart.CODE


def test_two_nodes_that_kueue_gave_up_wait_for_nobody(build: Build) -> None:
    world = kueue_on(build, *NODES[:2], unhealthy=list(NODES[:2]))
    gone = evicted_at(world)
    for name in NODES[:2]:
        planned_drain(world, name)
    world.run(60)
    assert set(gone) == {"w-0", "w-1"}


def test_a_node_that_is_not_ready_counts_before_kueue_says_so(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone = evicted_at(world)
    Node.objects.filter(name__in=NODES).update(ready=True)
    Node.objects.filter(name=NODES[1]).update(ready=None)
    waits = planned_drain(world, NODES[0])
    world.run(30)
    assert f"{NODES[1]} of it is not ready" in held_back(waits) and gone == {}
    Node.objects.filter(name=NODES[1]).update(ready=True)
    world.run(60)
    assert set(gone) == {"w-0"}


def test_a_workload_that_the_observer_has_not_seen_is_known_by_its_pods(build: Build) -> None:
    world = gang_on(build, *NODES[:2])
    for number, name in enumerate(NODES[:2]):
        told = a_member(f"w-{number}", "kueue/Workload/train/job-llm-1a2b", node=name)
        put(world, a_pod(f"w-{number}", name, labels=TAS, member=told))
    gone = evicted_at(world)
    planned_drain(world, NODES[0])
    second = planned_drain(world, NODES[1])
    world.run(40)
    assert len(gone) == 1
    held_back(second)


def test_a_fault_in_a_hurry_waits_for_no_workload_and_says_what_it_breaks(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone = evicted_at(world)
    planned_drain(world, NODES[0])
    world.run(10)
    urgent = fault(world, NODES[1])
    world.run(15)
    assert set(gone) == {"w-0", "w-1"}
    assert "Kueue may evict the whole workload by this" in drain_of(urgent).memo["joined"]
    assert "job-llm-1a2b" in drain_of(urgent).memo["joined"]


def test_a_person_may_say_that_the_workload_is_not_waited_for(build: Build) -> None:
    world = kueue_on(build, *NODES[:2], unhealthy=[NODES[1]])
    gone = evicted_at(world)
    waits = planned_drain(world, NODES[0])
    world.run(20)
    held_back(waits)
    forcing.wait_for_nobody(waits.pk, "minseo", "the owner agreed", world.clock.now())
    world.run(5)
    assert set(gone) == {"w-0"} and "whole workload" in drain_of(waits).memo["joined"]


def test_nobody_waits_for_a_workload_for_ever(build: Build) -> None:
    world = kueue_on(build, *NODES[:2], unhealthy=[NODES[1]])
    gone = evicted_at(world)
    waits = planned_drain(world, NODES[0])
    world.run(30)
    until = again(waits).blocked_until
    assert until is not None and gone == {}
    world.clock.tick(4 * 3600)
    assert world.run(120, lambda: "w-0" in gone)
    assert "whole workload" in drain_of(waits).memo["joined"]


def test_a_drain_that_was_given_up_keeps_the_workload_from_nobody_for_long(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    world.budgets["w-0"] = "train/llm"
    gone = evicted_at(world)
    first, second = planned_drain(world, NODES[0]), planned_drain(world, NODES[1])
    world.run(20)
    held_back(second)
    services.abort(first.pk, "minseo", "not now", world.clock.now())
    GangInterruption.objects.filter(gang=GANG).delete()  # nothing was interrupted
    world.run(120)
    assert set(gone) == {"w-1"}


def test_a_row_of_a_drain_that_is_long_forgotten_holds_nobody_back(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone, now = evicted_at(world), world.clock.now()
    GangInterruption.objects.create(
        cluster_id=world.cluster.pk, gang="kueue/Workload/train/job-llm-1a2b", workflow_id=999_999, begun_at=now,
        last_at=now,
    )  # fmt: skip
    planned_drain(world, NODES[0])
    world.run(10)
    assert set(gone) == {"w-0"}


def test_a_drain_taken_up_again_after_a_crash_is_still_the_one_whose_turn_it_is(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    gone = evicted_at(world)
    died: list[str] = []

    def dies(place: str) -> None:
        if place == "before evict" and not died:
            died.append(place)
            raise Crash

    world.crash = dies
    first, second = planned_drain(world, NODES[0]), planned_drain(world, NODES[1])
    with pytest.raises(Crash):
        world.run(20)
    world.run(60)
    begun = [flow for flow in (first, second) if drain_of(flow).memo.get("begun")]
    assert len(gone) == 1 and len(begun) == 1
    held_back(second if begun == [first] else first)


@pytest.mark.django_db(transaction=True)
def test_of_two_that_come_at_the_same_moment_one_is_let_in(build: Build) -> None:
    world = kueue_on(build, *NODES[:2])
    flows = [planned_drain(world, name) for name in NODES[:2]]
    one = workloads_apart.Workload("kueue/Workload/train/x", frozenset([GANG]))
    let_in: list[bool] = []
    gate = threading.Barrier(2)

    def come(workflow: Workflow) -> None:
        step = Step(workflow=workflow, memo={})
        life = NodeLifecycle(node=workflow.node)
        ctx = Context(workflow, step, life, None, world.ports_of(world.cluster), world.clock, TIMING)
        try:
            gate.wait(5)
            let_in.append(workloads_apart.take(ctx, [one], hurried=False)[0] is None)
        finally:
            connection.close()

    threads = [threading.Thread(target=come, args=(flow,)) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(let_in) == [False, True]
