"""A suspicion: tested when its work has ended, mended only when the test confirms it, and never in a fault's way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fleet.health.models import Incident, Signal
from fleet.inventory.models import Node
from fleet.lifecycle import services, suspects
from fleet.lifecycle.models import Remedy, Step, Workflow
from fleet.policy.models import Approval
from fleet.tickets.models import Ticket
from tests.builders import an_incident
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World, a_pod

NODE = "gpu-r01-01"
GREY: dict[str, Any] = {
    "cause": "grey-gpu",
    "action_class": "confirm",
    "severity": "degraded",
    "title": "GPU 3 is slower than its peers",
    "rule": "grey-gpu",
}


@pytest.fixture
def opted_in(tmp_path: Path, settings: object) -> None:
    file = tmp_path / "suites.yaml"
    file.write_text("version: 1\nconfirm: {pools: ['h100-*']}\n", encoding="utf-8")
    settings.SUITES_FILE = str(file)  # type: ignore[attr-defined]


def suspicion(world: World) -> Workflow:
    workflow = fault(world, NODE, **GREY)
    incident = workflow.incident
    assert incident is not None
    Signal.objects.create(
        cluster_id=world.cluster.pk, node_id=workflow.node_id, rule="grey-gpu", cause="grey-gpu", device="GPU-3",
        source="peers", severity="degraded", action_class="confirm", title=incident.title,
        first_bad_at=world.clock.now(), opened_at=world.clock.now(), seen_at=world.clock.now(), incident=incident,
    )  # fmt: skip
    suspects.mark(world.cluster.pk, world.clock.now())
    return workflow


def test_a_suspicion_alone_takes_no_node_out_where_nobody_opted_in(build: Build) -> None:
    world = build(NODE)
    workflow = suspicion(world)
    world.run(30)
    assert again(workflow).state == "waiting" and again(workflow).needs_approval and world.writes == []
    assert Approval.objects.get().kind == "recommend"
    services.approve(workflow.pk, "ann", world.clock.now())
    assert world.run(200, lambda: again(workflow).state == "succeeded")


def test_a_suspicion_that_the_test_does_not_confirm_costs_no_reboot(build: Build, opted_in: None) -> None:
    world = build(NODE)
    workflow = suspicion(world)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert world.resets == [] and state_of(NODE) == "in_service"
    jobs = [write for write in world.writes if write.startswith("job ")]
    assert len(jobs) == 1, "the tests need not run again before the return"
    incident = Incident.objects.get()
    assert incident.state == "resolved" and "Not confirmed" in incident.resolution
    assert not Remedy.objects.exists(), "no verb was tried, so none held"


def test_what_was_not_confirmed_is_no_longer_suspect_and_not_tested_again_for_a_day(
    build: Build, opted_in: None
) -> None:
    world = build(NODE)
    workflow = suspicion(world)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    assert Signal.objects.get().cleared_at is None, "the peers still say so"
    suspects.mark(world.cluster.pk, world.clock.now())
    assert state_of(NODE) == "in_service"
    node = Node.objects.get(name=NODE)
    later = an_incident(node, detected_at=world.clock.now(), **GREY)
    assert services.plan(world.cluster.pk, [later.pk], clock=world.clock) == []
    world.clock.tick(25 * 3600)
    assert services.plan(world.cluster.pk, [later.pk], clock=world.clock)


def test_a_confirmed_suspicion_goes_up_the_ladder_and_names_the_part(build: Build, opted_in: None) -> None:
    world = build(NODE)
    world.job_result = "failed"
    workflow = suspicion(world)
    assert world.run(900, lambda: again(workflow).state == "repair")
    assert world.resets, "the remedies of the plan came first"
    step = Step.objects.filter(workflow=workflow, verb="confirm").get()
    assert step.text.startswith("Confirmed.") and "GPU 3" in step.text
    ticket = Ticket.objects.get()
    assert ticket.part == "GPU 3"
    failed = [row for test in ticket.evidence["tests"] for row in test["results"] if row["status"] == "fail"]
    assert failed and failed[0]["device"] == "GPU 3"


def test_the_test_waits_for_the_work_to_end(build: Build, opted_in: None) -> None:
    world = build(NODE)
    world.pods["train/w-0"] = a_pod("w-0", NODE)
    world.budgets["w-0"] = "train/llm"
    workflow = suspicion(world)
    world.run(60)
    assert again(workflow).verb == "drain" and not [write for write in world.writes if write.startswith("job ")]


def test_a_test_without_a_result_is_repeated_once_and_then_a_matter_for_people(build: Build, opted_in: None) -> None:
    world = build(NODE)
    world.logs["confirm"] = "exec format error\n"
    workflow = suspicion(world)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert world.resets == []
    assert len([write for write in world.writes if write.startswith("job ")]) == 2
    assert "No result" in Ticket.objects.get().reason


def test_a_fault_takes_over_from_a_plan_that_only_waits(build: Build) -> None:
    world = build(NODE)
    waiting = suspicion(world)
    assert again(waiting).state == "waiting"
    real = fault(world, NODE)
    assert again(waiting).state == "cancelled" and "needs no test" in again(waiting).outcome
    assert not Approval.objects.filter(state="pending").exists()
    assert world.run(200, lambda: again(real).state == "succeeded") and len(world.resets) == 1


def test_a_fault_takes_over_from_a_drain_that_waits_for_its_job(build: Build, opted_in: None) -> None:
    world = build(NODE)
    world.pods["train/w-0"] = a_pod("w-0", NODE)
    world.budgets["w-0"] = "train/llm"
    workflow = suspicion(world)
    assert world.run(30, lambda: again(workflow).verb == "drain")
    node = Node.objects.get(name=NODE)
    worse = an_incident(node, detected_at=world.clock.now(), first_bad_at=world.clock.now())
    services.plan(world.cluster.pk, [worse.pk], clock=world.clock)
    taken = again(workflow)
    assert taken.incident_id == worse.pk and "confirm" not in [step["verb"] for step in taken.plan]
    world.budgets.clear()
    assert world.run(300, lambda: again(workflow).state == "succeeded") and len(world.resets) == 1
