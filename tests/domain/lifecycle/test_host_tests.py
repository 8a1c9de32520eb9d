"""Tests that the host itself runs, as on a node of Slurm: one at a time, without images, and nothing of them left."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fleet.lifecycle import services
from fleet.lifecycle.context import Ports
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.validation.models import ValidationRun
from fleet.ports.cluster import JobSeen
from fleet.ports.errors import TemporaryError
from tests.diagnostics import nccl, storage
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.test_confirm import suspicion
from tests.domain.lifecycle.world import World

NODE = "gpu-r01-01"
SUITE = """
version: 1
suites: [{name: hall, tests: [dcgm, nccl, {storage: {mounts: [/data]}}]}]
confirm: {pools: ["h100-*"]}
"""


@pytest.fixture
def world(build: Build, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> World:
    file = tmp_path / "suites.yaml"
    file.write_text(SUITE, encoding="utf-8")
    settings.SUITES_FILE = str(file)
    usual = World.ports_of

    def ports_of(world: World, cluster: Any) -> Ports:
        return dataclasses.replace(usual(world, cluster), tests_on_host=True)

    monkeypatch.setattr(World, "ports_of", ports_of)
    found = build(NODE)
    found.logs = {"nccl": nccl(), "storage": storage({"/data": (900.0, 1100.0)})}
    return found


def running(world: World) -> list[str]:
    return [name for name, job in world.jobs.items() if job.phase == "running"]


def being_tested(world: World) -> Workflow:
    world.job_result = "running"
    workflow = fault(world, NODE)
    assert world.run(200, lambda: bool(running(world)))
    return workflow


def test_they_run_one_after_the_other_and_need_no_image(world: World) -> None:
    workflow = being_tested(world)
    for test in ("dcgm", "nccl", "storage"):
        (name,) = running(world)
        assert name.endswith(test) and world.cleared == []
        world.run(20)
        assert running(world) == [name], "nobody else before it has ended"
        world.jobs[name] = JobSeen("succeeded")
        assert world.run(60, lambda: bool(running(world) or world.cleared))
    assert world.run(60, lambda: again(workflow).state == "succeeded") and state_of(NODE) == "in_service"
    assert set(ValidationRun.objects.values_list("result", flat=True)) == {"passed"}
    assert world.cleared and set(world.cleared) == {NODE}


@pytest.mark.parametrize("end", ["failed", "aborted", "taken_back", "skipped"])
def test_nothing_of_them_is_left_whatever_ends_them(world: World, end: str) -> None:
    workflow = being_tested(world)
    (name,) = running(world)
    if end == "failed":
        world.jobs[name] = JobSeen("failed", "exit code 226")
        assert world.run(60, lambda: ValidationRun.objects.filter(result="failed").exists())
    elif end == "taken_back":
        world.change(NODE, unschedulable=False, annotations={})
        assert world.run(60, lambda: again(workflow).state == "cancelled")
    elif end == "aborted":
        services.abort(workflow.pk, "ann", "needed now", world.clock.now())
        assert world.run(60, lambda: again(workflow).state == "cancelled")
    else:
        services.skip_step(workflow.pk, "ann", "tested by hand", world.clock.now())
        assert world.run(60, lambda: again(workflow).state == "succeeded")
    assert world.cleared and set(world.cleared) == {NODE}
    assert name not in world.jobs or world.jobs[name].phase == "failed"


def test_a_node_goes_no_further_before_they_are_cleared_away(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job may still be ending, slurmctld may be away."""
    left = [5]

    def clear(world: World, node: str) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise TemporaryError("Requested reservation is in use.", code="slurm_error")
        world.cleared.append(node)

    monkeypatch.setattr(World, "clear_tests", clear)
    workflow = fault(world, NODE)
    assert world.run(200, lambda: again(workflow).blocked_code == "slurm_error")
    assert again(workflow).verb == "validate" and state_of(NODE) == "validating"
    assert world.run(200, lambda: again(workflow).state == "succeeded") and world.cleared
    assert ValidationRun.objects.count() == 3, "each was run once"


def test_a_suspicion_is_confirmed_alike(world: World) -> None:
    world.job_result = "failed"
    workflow = suspicion(world)
    assert world.run(200, lambda: ValidationRun.objects.filter(result="failed").exists())
    assert world.run(60, lambda: again(workflow).verb != "confirm") and world.cleared
    assert ValidationRun.objects.get(purpose="confirm").test == "dcgm", "the first that fails is enough"
