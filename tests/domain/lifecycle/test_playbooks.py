"""A playbook's ladder, retries and deadlines as the engine runs them; what is measured of each remedy."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from fleet.health.models import Incident
from fleet.inventory.models import Node
from fleet.lifecycle import effectiveness, services
from fleet.lifecycle.ladder import MIN_TRIES, Effect
from fleet.lifecycle.models import Remedy, Step, Workflow
from fleet.lifecycle.shelf import Shelf
from fleet.tickets.models import Ticket
from tests.builders import an_incident
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import a_pod

NODE = "gpu-r01-01"


def remember(cause: str, verb: str, results: dict[str, int], workflow: Workflow) -> None:
    number = Remedy.objects.count()
    for result, count in results.items():
        for _ in range(count):
            number += 1
            Remedy.objects.create(
                workflow=workflow, attempt=100 + number, node_id=1, cluster_id=workflow.cluster_id, verb=verb,
                cause=cause, result=result, ended_at=workflow.created_at,
            )  # fmt: skip


def test_a_reboot_that_does_not_help_is_followed_by_a_power_cycle_and_then_by_people(build: Build) -> None:
    world = build(NODE)
    world.job_result = "failed"
    workflow = fault(world, NODE)
    assert world.run(600, lambda: again(workflow).state == "repair")
    assert [verb for _, verb in world.resets] == ["ForceRestart", "PowerCycle"]
    assert "Attempt 2 of 2" in Ticket.objects.get().reason
    assert list(Remedy.objects.order_by("attempt").values_list("verb", "result")) == [
        ("reboot", "failed"),
        ("power_cycle", "failed"),
    ]


def test_what_never_mended_such_a_fault_is_not_tried_again(build: Build) -> None:
    world = build(NODE, "gpu-r01-02")
    first = fault(world, "gpu-r01-02")
    cause = Incident.objects.get(pk=first.incident_id).cause
    remember(cause, "reboot", {"failed": MIN_TRIES - 1, "bounced": 1}, first)
    workflow = fault(world, NODE)
    assert [item["verb"] for item in workflow.plan[:3]] == ["hold", "drain", "power_cycle"]
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    assert (NODE, "PowerCycle") in world.resets


def test_a_remedy_held_until_the_fault_came_back_within_the_day(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    assert world.run(300, lambda: again(workflow).state == "succeeded")
    assert Remedy.objects.get().result == "held"
    world.clock.tick(3600)
    second = fault(world, NODE)
    assert Remedy.objects.get().result == "bounced"
    assert world.run(300, lambda: again(second).state == "succeeded")
    [line] = effectiveness.table(None, world.clock.now())
    assert (line.verb, line.tries, line.held, line.bounced) == ("reboot", 2, 1, 1)


def test_effects_of_other_hardware_speak_only_where_there_is_nothing_nearer(build: Build) -> None:
    world = build(NODE, gpu_model="H100")
    workflow = fault(world, NODE)
    cause = Incident.objects.get(pk=workflow.incident_id).cause
    remember(cause, "reboot", {"failed": 10}, workflow)  # no SKU: other machines
    assert effectiveness.effects_of([workflow], world.clock.now())[0]["reboot"] == Effect(10, 0)
    Remedy.objects.update(sku="H100")
    Remedy.objects.filter(pk__in=list(Remedy.objects.values_list("pk", flat=True)[:5])).update(
        result="held", sku="B200"
    )
    assert effectiveness.effects_of([workflow], world.clock.now())[0]["reboot"] == Effect(5, 0)


def test_a_drain_beyond_its_deadline_asks_a_person_and_starts_anew_when_told_to(build: Build) -> None:
    world = build(NODE)
    world.pods["train/p"] = a_pod("p", NODE)
    world.budgets["p"] = "train/pdb"
    workflow = fault(world, NODE)
    assert world.run(30, lambda: again(workflow).blocked_code == "pdb")
    world.pass_time(4 * 3600)
    assert world.run(60, lambda: again(workflow).blocked_code == "deadline")
    assert "A person decides" in again(workflow).blocked_text and "train/pdb" in again(workflow).blocked_text
    assert world.resets == [] and state_of(NODE) == "draining"
    services.retry_now(workflow.pk, "ann", world.clock.now())
    assert world.run(30, lambda: again(workflow).blocked_code == "pdb")


def test_a_drain_that_escalates_goes_to_people_and_never_to_a_reset(build: Build) -> None:
    world = build(NODE)
    world.pods["train/p"] = a_pod("p", NODE)
    world.budgets["p"] = "train/pdb"
    workflow = fault(world, NODE)
    plan = [
        {**item, "deadline": 60, "at_deadline": "escalate"} if item["verb"] == "drain" else item
        for item in workflow.plan
    ]
    Workflow.objects.filter(pk=workflow.pk).update(plan=plan)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert world.resets == []


def test_a_failed_validation_is_tried_again_after_its_back_off_when_the_playbook_says_so(build: Build) -> None:
    world = build(NODE)
    world.job_result = "failed"
    workflow = fault(world, NODE)
    plan = [{**item, "retries": 1, "backoff": 5} if item["verb"] == "validate" else item for item in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(plan=plan, attempts=1)
    assert world.run(600, lambda: again(workflow).state == "repair")
    step = Step.objects.get(workflow=workflow, verb="validate")
    assert step.memo["tries"] == 2
    assert len([write for write in world.writes if write.startswith("job ")]) == 2, "each try has a Job of its own"


def test_a_step_that_stops_on_failure_waits_for_a_person(build: Build) -> None:
    world = build(NODE)
    world.job_result = "failed"
    workflow = fault(world, NODE)
    plan = [{**item, "on_failure": "stop"} if item["verb"] == "validate" else item for item in workflow.plan]
    Workflow.objects.filter(pk=workflow.pk).update(plan=plan)
    assert world.run(300, lambda: again(workflow).blocked_code == "stopped_here")
    assert "A person decides" in again(workflow).blocked_text
    services.skip_step(workflow.pk, "ann", "tested by hand", world.clock.now())
    assert world.run(300, lambda: again(workflow).state == "succeeded")


def test_a_broken_site_file_forbids_every_plan_until_it_is_read_and_then_keeps_the_last_good_book(
    tmp_path: Path, build: Build, settings: pytest.FixtureRequest
) -> None:
    file = tmp_path / "playbooks.yaml"
    file.write_text("version: 1\nplaybooks: [", encoding="utf-8")
    shelf = Shelf(str(file))
    assert shelf.book().playbooks == () and "cannot be used" in shelf.book().problem
    settings.PLAYBOOKS_FILE = str(file)  # type: ignore[attr-defined]
    world = build(NODE)
    incident = an_incident(Node.objects.get(name=NODE), detected_at=world.clock.now())
    assert services.plan(world.cluster.pk, [incident.pk], clock=world.clock) == []
    file.write_text("version: 1\nplaybooks: []\n", encoding="utf-8")
    shelf._looked = float("-inf")
    assert shelf.book().named("reboot") and not shelf.book().problem
    file.write_text("version: 2\n", encoding="utf-8")
    os.utime(file, (1, 1))
    shelf._looked = float("-inf")
    assert shelf.book().named("reboot") and shelf.book().problem


def test_old_tries_are_forgotten(build: Build) -> None:
    world = build(NODE)
    workflow = fault(world, NODE)
    remember("xid-79", "reboot", {"failed": 3}, workflow)
    later = world.clock.now() + effectiveness.WINDOW + timedelta(days=1)
    assert effectiveness.table(None, later) == []
