"""What must be true before a node serves again, and that nothing missing is taken for true."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connection

from fleet.inventory.models import Device, Node
from fleet.lifecycle import services
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from fleet.ports.cluster import JobSeen
from fleet.tickets.models import Ticket
from tests import diagnostics
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"
THREE = """
version: 1
suites:
  - name: three
    tests:
      - dcgm
      - nccl: {image: "registry.example/nccl:1", at_least: 400}
      - storage: {mounts: [/data]}
"""


@pytest.fixture
def world(build: Build) -> World:
    return build(NODE)


@pytest.fixture
def three(world: World, tmp_path: Path, settings: object) -> World:
    file = tmp_path / "suites.yaml"
    file.write_text(THREE, encoding="utf-8")
    settings.SUITES_FILE = str(file)  # type: ignore[attr-defined]
    world.logs |= {"-nccl": diagnostics.nccl(462.0), "-storage": diagnostics.storage({"/data": (900.0, 1800.0)})}
    return world


def test_what_was_measured_is_kept_per_test_and_gpu(three: World) -> None:
    workflow = fault(three, NODE)
    assert three.run(200, lambda: again(workflow).state == "succeeded")
    assert {run.test: run.result for run in ValidationRun.objects.all()} == dict.fromkeys(
        ("dcgm", "nccl", "storage"), "passed"
    )
    values = {(row.name, row.device): (row.value, row.unit) for row in ValidationResult.objects.exclude(value=None)}
    assert values["busbw", ""] == (462.0, "GB/s") and values["write", "/data"] == (900.0, "MiB/s")
    assert ValidationResult.objects.filter(run__test="dcgm", device="GPU 7", status="pass").exists()


def test_two_jobs_never_share_the_gpus(three: World) -> None:
    three.job_result = "running"
    workflow = fault(three, NODE)
    three.run(60)
    running = {run.test for run in ValidationRun.objects.filter(workflow=workflow, ended_at=None)}
    assert running == {"dcgm", "storage"}


def test_a_bandwidth_below_the_configured_number_is_no_pass(three: World) -> None:
    three.logs["-nccl"] = diagnostics.nccl(250.0)
    workflow = fault(three, NODE)
    assert three.run(900, lambda: again(workflow).state == "repair")
    assert "busbw: 250 GB/s is below 400 GB/s" in Ticket.objects.get().reason


def measured(world: World, names: list[str], busbw: float) -> None:
    for node in Node.objects.filter(name__in=names):
        run = ValidationRun.objects.create(
            cluster_id=world.cluster.pk, node=node, purpose="validate", suite="three", test="nccl", kind="nccl",
            job=f"default/{node.name}", sku=node.gpu_model, pool="h100-train", started_at=world.clock.now(),
            deadline=world.clock.now(), ended_at=world.clock.now(), result="passed",
        )  # fmt: skip
        ValidationResult.objects.create(
            run=run, name="busbw", status="pass", value=busbw, unit="GB/s",
            key=f"{run.sku}|{run.pool}|nccl|busbw|GB/s",
        )  # fmt: skip


def test_a_bandwidth_below_nine_tenths_of_its_peers_is_no_pass(three: World) -> None:
    measured(three, ["other-000", "other-001", "other-002"], 540.0)
    workflow = fault(three, NODE)
    assert three.run(900, lambda: again(workflow).state == "repair")
    row = ValidationResult.objects.filter(name="busbw", status="fail").latest("pk")
    assert (row.baseline, row.nodes) == (540.0, 3) and row.floor == pytest.approx(486.0)


def test_the_nodes_own_slow_runs_do_not_excuse_it(three: World) -> None:
    measured(three, ["other-000", "other-001", NODE], 420.0)
    workflow = fault(three, NODE)
    assert three.run(200, lambda: again(workflow).state == "succeeded")
    assert ValidationResult.objects.filter(name="busbw", run__workflow=workflow).get().baseline is None


@pytest.mark.parametrize("log", [None, "", "Segmentation fault\n", diagnostics.dcgm4()[:400], "\x00" * 5000])
def test_a_job_that_succeeds_without_a_result_returns_no_node_and_reboots_none(world: World, log: str | None) -> None:
    world.logs["validate"] = log
    workflow = fault(world, NODE)
    assert world.run(300, lambda: again(workflow).state == "repair")
    assert len(world.resets) == 1, "the plan's own reboot, and no other for want of a result"
    assert "No result" in Ticket.objects.get().reason and world.nodes[NODE].unschedulable


def test_a_job_that_never_starts_is_no_result(world: World) -> None:
    world.job_result = "pending"
    workflow = fault(world, NODE)
    for tries in (1, 2):
        assert world.run(90, lambda tries=tries: ValidationRun.objects.count() == tries)  # type: ignore[misc]
        world.pass_time(25 * 60)
    assert world.run(10, lambda: again(workflow).state == "repair")
    assert "still pending" in Ticket.objects.get().reason and len(world.resets) == 1


def test_a_diagnosis_that_hangs_under_load_counts_against_the_node(world: World) -> None:
    world.job_result = "running"
    workflow = fault(world, NODE)
    assert world.run(120, lambda: ValidationRun.objects.filter(ran_at__isnull=False).exists())
    run = ValidationRun.objects.get()
    world.jobs[run.job.split("/")[1]] = JobSeen("failed", "DeadlineExceeded: Job was active longer than specified")
    world.logs["validate"] = None
    world.run(3)
    run.refresh_from_db()
    assert run.result == "failed" and "did not end in time" in run.text
    assert again(workflow).attempt == 2


def test_every_count_must_agree(world: World) -> None:
    node = Node.objects.get(name=NODE)
    for gpu in range(7):
        Device.objects.create(node=node, kind="gpu", key=f"GPU-{gpu}", first_seen_at=world.clock.now())
    workflow = fault(world, NODE)
    assert world.run(90, lambda: again(workflow).blocked_code == "gpu_count")
    assert "The exporter shows 7 of 8 GPUs" in again(workflow).blocked_text
    Device.objects.create(node=node, kind="gpu", key="GPU-7", first_seen_at=world.clock.now())
    assert world.run(60, lambda: again(workflow).state == "succeeded")


def test_kubernetes_must_say_how_many_gpus_there_are(world: World) -> None:
    workflow = fault(world, NODE)
    world.change(NODE, gpu_allocatable=None)
    assert world.run(90, lambda: again(workflow).blocked_code == "gpu_count")


def test_a_node_with_another_kernel_than_its_pool_does_not_return(world: World) -> None:
    Node.objects.exclude(name=NODE).update(kernel="6.8.0-79")
    world.change(NODE, kernel="6.8.0-31")
    workflow = fault(world, NODE)
    assert world.run(90, lambda: again(workflow).blocked_code == "drift")
    assert "kernel: 6.8.0-31, the pool has 6.8.0-79" in again(workflow).blocked_text
    world.change(NODE, kernel="6.8.0-79")
    assert world.run(60, lambda: again(workflow).state == "succeeded")


def test_facts_without_a_profile_are_told_and_not_called_equal(world: World) -> None:
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).state == "succeeded")
    (step,) = [step for step in again(workflow).steps.all() if step.verb == "validate"]
    assert "Not compared" in step.text and "kernel" in step.text


def test_a_node_that_is_given_back_is_not_tested_any_more(world: World) -> None:
    world.job_result = "running"
    workflow = fault(world, NODE)
    assert world.run(120, lambda: again(workflow).verb == "validate" and bool(ValidationRun.objects.count()))
    services.abort(workflow.pk, "ann", "needed now", world.clock.now())
    assert world.run(20, lambda: again(workflow).state == "cancelled")
    assert ValidationRun.objects.get().result == "stopped"
    assert not [job for job in world.jobs if "validate" in job], "its Job was deleted"
    assert state_of(NODE) == "released"


def test_a_site_file_with_mistakes_lets_no_node_return_untested(world: World, tmp_path: Path, settings: object) -> None:
    file = tmp_path / "suites.yaml"
    file.write_text("version: 1\nsuites: [{name: x, tests: [nothing]}]\n", encoding="utf-8")
    settings.SUITES_FILE = str(file)  # type: ignore[attr-defined]
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).state == "repair")
    assert "cannot be used" in Ticket.objects.get().reason


def test_what_a_node_passed_before_the_database_was_restored_is_no_other_nodes_result(build: Build) -> None:
    """Workflows are numbered anew then, and the cluster still has the Jobs of their namesakes for an hour."""
    world = build(NODE, "gpu-r01-02")
    first = fault(world, NODE)
    assert world.run(200, lambda: again(first).state == "succeeded") and world.jobs
    number = first.pk
    ValidationRun.objects.all().delete()
    Workflow.objects.all().delete()
    with connection.cursor() as cursor:
        cursor.execute("SELECT setval(pg_get_serial_sequence('lifecycle_workflow', 'id'), %s, false)", [number])
    world.job_result = "failed"
    second = fault(world, "gpu-r01-02")
    assert second.pk == number
    assert world.run(300, lambda: ValidationRun.objects.filter(workflow=second).exclude(ended_at=None).exists())
    assert ValidationRun.objects.filter(workflow=second, result="failed").exists()
    assert state_of("gpu-r01-02") != "in_service"
