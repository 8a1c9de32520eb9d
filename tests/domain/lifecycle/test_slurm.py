"""Nodes of Slurm: jobs end by themselves unless the fault is in a hurry, and the drain's reason tells people why."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from fleet.inventory.models import Node
from fleet.lifecycle.context import Ports
from fleet.lifecycle.models import Intent, Step
from fleet.ports.cluster import SLURM_JOB, HoldRequest, JobRequest, NodeSeen
from fleet.ports.errors import PermanentError, TemporaryError
from fleet.tickets.models import Ticket
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.test_drain import drain_of, put, timing, writes  # noqa: F401 - fixture
from tests.domain.lifecycle.test_drain_jobs import planned_drain
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"


def a_rank(job: int, **fields: Any) -> Any:
    return a_pod(f"{job}.0", NODE, owner=f"{SLURM_JOB}{job}", gang=f"train/{job}", **fields)


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What people read beside the node, as each hold wrote it: the world is one that shows it."""
    told: list[str] = []
    take, ports = World.hold, World.ports_of

    def hold(world: World, request: HoldRequest) -> NodeSeen:
        told.append(request.why)
        return take(world, request)

    def ports_of(world: World, cluster: Any) -> Ports:
        return dataclasses.replace(ports(world, cluster), shows_why=True)

    monkeypatch.setattr(World, "hold", hold)
    monkeypatch.setattr(World, "ports_of", ports_of)
    return told


def test_a_planned_drain_waits_for_the_job_s_end_and_requeues_nothing(build: Build, timing: Any) -> None:  # noqa: F811
    timing(job_wait=300)  # so long a checkpoint would be waited for
    world = build(NODE)
    ends = world.clock.now() + timedelta(hours=9)
    put(world, a_rank(17, ends_at=ends))
    workflow = planned_drain(world, NODE)
    world.run(1200)
    seen = again(workflow)
    assert (seen.blocked_code, seen.blocked_until) == ("job_wait", ends) and "17" in seen.blocked_text
    assert writes(world, "evict") == [] and world.nodes[NODE].unschedulable
    world.pods.clear()
    assert world.run(120, lambda: drain_of(workflow).state == "done")


def test_a_job_without_a_limit_is_waited_for_as_well(build: Build) -> None:
    world = put(build(NODE), a_rank(17))
    workflow = planned_drain(world, NODE)
    world.run(3600)
    assert again(workflow).blocked_code == "job_wait" and "no time limit" in again(workflow).blocked_text
    assert writes(world, "evict") == []


def test_a_fault_in_a_hurry_requeues_it(build: Build) -> None:
    world = put(build(NODE), a_rank(17))
    workflow = fault(world, NODE)
    assert world.run(120, lambda: drain_of(workflow).state == "done" if Step.objects.filter(verb="drain") else False)
    assert writes(world, "evict") == ["train/17.0"]


def test_the_hold_says_why_and_names_the_ticket_once_there_is_one(build: Build, lines: list[str]) -> None:
    world = build(NODE)
    Node.objects.get(name=NODE).bmcs.all().delete()  # so that only people can reboot it
    workflow = fault(world, NODE)
    assert world.run(600, lambda: again(workflow).state == "repair")
    ticket = Ticket.objects.get(workflow_id=workflow.pk)
    assert workflow.incident is not None
    assert lines == [workflow.incident.title, f"{workflow.incident.title} {ticket.label}"]
    assert Intent.objects.filter(workflow=workflow, verb="hold", resolved_at=None).count() == 0
    assert state_of(NODE) == "awaiting_repair"


def test_a_ticket_stands_whether_or_not_slurm_takes_its_name(
    build: Build, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = build(NODE)
    Node.objects.get(name=NODE).bmcs.all().delete()
    take = World.hold

    def hold(world: World, request: HoldRequest) -> NodeSeen:
        if "TKT" in request.why:
            raise TemporaryError("slurmctld is away", code="slurm_unreachable")
        return take(world, request)

    monkeypatch.setattr(World, "hold", hold)
    workflow = fault(world, NODE)
    assert world.run(600, lambda: again(workflow).state == "repair")
    assert again(workflow).blocked_code == "ticket"


def test_a_node_that_cannot_be_tested_is_given_to_people_and_never_returned(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(world: World, request: JobRequest) -> None:
        raise PermanentError("no Job can be started on it", code="slurm_no_tests")

    monkeypatch.setattr(World, "create_job", refuse)
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(600, lambda: again(workflow).blocked_code == "slurm_no_tests")
    world.run(3 * 3600)
    assert "could not be tested" in Ticket.objects.get(workflow_id=workflow.pk).reason
    assert world.nodes[NODE].unschedulable and state_of(NODE) == "awaiting_repair"


def slurmd(*states: str) -> Any:
    return a_pod("train-0", NODE, owner="NodeSet/train", gang="", slurm=states)


def test_a_slurmd_pod_goes_when_slurm_has_drained_it_and_nothing_is_left(build: Build) -> None:
    world = put(build(NODE), slurmd("Idle"))
    workflow = planned_drain(world, NODE)
    world.run(120)
    assert "has not drained train/train-0 yet" in again(workflow).blocked_text
    for states in (("Allocated", "Drain"), ("Drain", "Mixed"), ("Completing", "Drain", "Idle")):
        put(world, slurmd(*states))
        world.run(600)
        assert "running jobs end on train/train-0" in again(workflow).blocked_text, states
        assert writes(world, "evict") == []
    put(world, slurmd("Drain", "Idle"))
    assert world.run(120, lambda: drain_of(workflow).state == "done")
    assert writes(world, "evict") == ["train/train-0"]


def test_in_a_hurry_it_goes_when_the_drain_stands_and_its_budget_speaks_for_its_jobs(build: Build) -> None:
    world = put(build(NODE), slurmd("Allocated"))
    world.budgets["train-0"] = "train/slurmd"
    workflow = fault(world, NODE)
    world.run(30)
    assert "has not drained" in again(workflow).blocked_text and writes(world, "evict") == []
    put(world, slurmd("Allocated", "Drain"))
    world.run(60)
    assert again(workflow).blocked_code == "pdb"
    world.budgets.clear()
    assert world.run(120, lambda: drain_of(workflow).state == "done")


def test_in_a_hurry_an_operator_that_does_not_drain_is_not_waited_for_for_ever(build: Build) -> None:
    world = put(build(NODE), slurmd("Idle"))
    workflow = fault(world, NODE)
    assert world.run(300, lambda: drain_of(workflow).state == "done" if Step.objects.filter(verb="drain") else False)
