"""The engine heals a node of a real Slurm: its jobs requeued, its host booted and tested, its drain lifted when it is
well."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.adapters import slurm as adapter
from fleet.adapters.slurm import Connection, Scontrol, Space
from fleet.health.models import Incident, Signal
from fleet.lifecycle.context import Ports
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from fleet.ports.cluster import HOLD_ANNOTATION
from tests.diagnostics import dcgm4, nccl
from tests.domain.lifecycle.conftest import Build, again, fault, state_of
from tests.domain.lifecycle.test_drain_jobs import planned_drain
from tests.domain.lifecycle.world import World
from tests.labs.slurm import Slurm
from tests.labs.slurm_fixtures import connection, one_slurm, real  # noqa: F401 - fixtures
from tests.patience import until

pytestmark = pytest.mark.usefixtures("real")
NODE = "gpu-02"


@pytest.fixture
def tests(real: Slurm, settings: Any) -> Iterator[Path]:  # noqa: F811
    """Where tests leave what they print, and a suite whose programs print what those of a good node do."""
    folder = real.folder / "tests"
    folder.mkdir()
    (folder / "dcgm").write_text(dcgm4(), encoding="utf-8")
    (folder / "nccl").write_text(nccl(), encoding="utf-8")
    (folder / "suites.yaml").write_text(
        f"""
version: 1
suites:
  - name: hall
    tests:
      - dcgm: {{command: [cat, {folder}/dcgm]}}
      - nccl: {{command: [cat, {folder}/nccl]}}
""",
        encoding="utf-8",
    )
    settings.SUITES_FILE = str(folder / "suites.yaml")
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def world(
    build: Build,
    real: Slurm,  # noqa: F811
    connection: Connection,  # noqa: F811
    tests: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> World:
    """The engine's world, whose cluster is the real Slurm and whose BMC boots the real node's slurmd."""
    reader = adapter.reader(connection)
    command = Scontrol(shutil.which("scontrol") or "", str(real.config), real.token)
    actor = adapter.actor(connection, "muster-0123456789abcdef", command, Space(str(tests)))
    seen = reader.node(NODE)
    found = build(NODE, uid=seen.uid, boot_id=seen.boot_id)

    def reset(target: Any, verb: Any, deadline: float) -> Any:
        found.resets.append((target.node, verb))
        real.restart(target.node)
        Signal.objects.filter(node__name=target.node, cleared_at=None).update(cleared_at=found.clock.now())
        return found._seen(target)

    def ports_of(cluster: Any) -> Ports:
        return Ports(reader, actor, found, found.target, lambda: actor.claim_lease("muster-0123456789abcdef", 60),
                     shows_why=True, tests_on_host=True)  # fmt: skip

    monkeypatch.setattr(found, "reset", reset)
    monkeypatch.setattr(found, "ports_of", ports_of)
    return found


def goes_on(world: World, holds: Any, seconds: int = 2) -> None:
    """So many of the engine's seconds for each look, until it is true or Slurm had all the time it needs.

    Few while the engine waits for Slurm, lest its own patience ends; many where it waits for its clock alone.
    """
    until(lambda: world.run(seconds, holds))


def test_a_fault_is_healed_and_the_job_starts_again(world: World, real: Slurm) -> None:  # noqa: F811
    job = real.submit(2, f"--nodelist=gpu-01,{NODE}")
    until(lambda: real.jobs().get(job) == "RUNNING")
    before = real.boot_time(NODE)
    workflow = fault(world, NODE)
    goes_on(world, lambda: again(workflow).verb == "validate")
    assert real.jobs()[job] == "PENDING"
    assert world.resets == [(NODE, "ForceRestart")]
    assert real.boot_time(NODE) != before and "DRAIN" in real.state(NODE)
    shown = real.scontrol("show", "node", NODE)
    assert f"Reason=Muster hold {again(workflow).hold_value} by muster-0123456789abcdef: {title(workflow)}" in shown
    goes_on(world, lambda: again(workflow).state == "succeeded")
    assert state_of(NODE) == "in_service" and "DRAIN" not in real.state(NODE) and real.reservations() == []
    tested = ValidationRun.objects.order_by("pk").values_list("test", "result")
    assert list(tested) == [("dcgm", "passed"), ("nccl", "passed")]
    busbw = ValidationResult.objects.get(name="busbw")
    assert (busbw.value, busbw.unit) == (470.0, "GB/s") and busbw.key, "kept as a baseline for others"
    until(lambda: real.jobs().get(job) == "RUNNING")


def title(workflow: Workflow) -> str:
    return Incident.objects.get(pk=workflow.incident_id).title


def test_a_planned_drain_lets_the_job_end_and_a_person_who_resumes_is_respected(
    world: World,
    real: Slurm,  # noqa: F811
) -> None:
    job = real.submit(1, f"--nodelist={NODE}", "--time=10")
    until(lambda: real.jobs().get(job) == "RUNNING")
    workflow = planned_drain(world, NODE)
    goes_on(world, lambda: again(workflow).blocked_code == "job_wait")
    assert real.jobs()[job] == "RUNNING" and real.state(NODE) == "MIXED+DRAIN"
    real.scontrol("update", f"nodename={NODE}", "state=resume")
    goes_on(world, lambda: again(workflow).state == "cancelled", 60)
    assert state_of(NODE) == "released" and "DRAIN" not in real.state(NODE) and real.jobs()[job] == "RUNNING"


def test_a_person_s_drain_on_top_of_ours_ends_our_work_and_stays(world: World, real: Slurm) -> None:  # noqa: F811
    job = real.submit(1, f"--nodelist={NODE}", "--time=10")
    until(lambda: real.jobs().get(job) == "RUNNING")
    workflow = planned_drain(world, NODE)
    goes_on(world, lambda: again(workflow).blocked_code == "job_wait")
    real.scontrol("update", f"nodename={NODE}", "state=drain", "reason=kim: I take it from here")
    goes_on(world, lambda: again(workflow).state == "cancelled", 60)
    assert "Reason=kim: I take it from here" in real.scontrol("show", "node", NODE)
    assert HOLD_ANNOTATION not in world.ports_of(world.cluster).reader.node(NODE).annotations
