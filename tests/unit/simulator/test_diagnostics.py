"""What the simulated test programs print is what the real ones print: our own parsers read it."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.lifecycle.validation import judge, reading
from fleet.lifecycle.validation.findings import Report, Status
from fleet.lifecycle.validation.logs import clean
from fleet.lifecycle.validation.suite import COMMANDS, Test
from tests.unit.simulator.client import Client
from tests.unit.simulator.test_pods import JOBS, NODE, finished, job, key

MOUNTS = ("/data", "/home:ro")


def run(fleet: Client, kind: str, level: int = 3) -> tuple[Report, bool]:
    body: dict[str, Any] = job()
    command = Test(kind, kind, mounts=MOUNTS).argv(level, 8)
    body["spec"]["template"]["spec"]["containers"][0]["command"] = list(command)
    assert fleet.call("POST", JOBS, body).status == 201
    good = finished(fleet)["status"]["conditions"][-1]["type"] == "Complete"
    (pod,) = fleet.pods(labelSelector="batch.kubernetes.io/job-name=muster-validate-1")
    return reading.read(kind, clean(fleet.call("GET", key(pod) + "/log").text), good), good


def result(report: Report, good: bool) -> str:
    return judge.conclude(report, judge.judge(report, judge.Limit(), {}), None if good else "exit code 1", 8)[0]


@pytest.mark.parametrize("kind", sorted(COMMANDS))
def test_a_healthy_node_passes_every_program(fleet: Client, kind: str) -> None:
    report, good = run(fleet, kind)
    assert result(report, good) == judge.PASSED
    assert [finding for finding in report.findings if finding.value is not None]


@pytest.mark.parametrize("level", [1, 2, 3])
def test_every_level_of_the_diagnostics_names_a_bad_gpu(fleet: Client, level: int) -> None:
    fleet.inject("ecc_dbe", NODE, 2)
    report, good = run(fleet, "dcgm", level)
    assert not good and result(report, good) == judge.FAILED
    assert {f.device for f in report.findings if f.status == Status.FAIL} == {"GPU 2"}


def test_a_gpu_off_the_bus_is_not_among_the_tested(fleet: Client) -> None:
    fleet.inject("gpu_lost", NODE, 5)
    report, _ = run(fleet, "dcgm")
    assert len(report.gpus) == 7 and result(report, False) == judge.FAILED


def test_a_collective_without_a_gpu_breaks_off(fleet: Client) -> None:
    fleet.inject("gpu_lost", NODE, 5)
    assert result(*run(fleet, "nccl")) == judge.FAILED


def test_a_hanging_mount_fails_the_probe(fleet: Client) -> None:
    fleet.inject("nfs_hang", NODE, None)
    report, good = run(fleet, "storage")
    assert result(report, good) == judge.FAILED
    assert {f.device for f in report.findings if f.status == Status.FAIL} == {"/data"}


def test_a_log_can_be_asked_for_in_part(fleet: Client) -> None:
    run(fleet, "dcgm")
    (pod,) = fleet.pods(labelSelector="batch.kubernetes.io/job-name=muster-validate-1")
    assert len(fleet.call("GET", key(pod) + "/log?tailLines=2").text.splitlines()) == 2
    assert len(fleet.call("GET", key(pod) + "/log?limitBytes=10").text) == 10
