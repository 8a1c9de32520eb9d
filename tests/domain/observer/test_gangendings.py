"""The black box: a failure is kept once, with what was known then, and with what could not be had."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from fleet.gangs.endings import LATE
from fleet.gangs.models import Ending, GangMoment
from fleet.health.models import NodeVerdict
from fleet.inventory.models import Node
from fleet.observer.gangendings import GangEndings
from fleet.observer.session import Session
from fleet.ports.cluster import EventSeen
from fleet.ports.errors import MissingRight, TemporaryError
from fleet.ports.gangs import GangObject, Said
from fleet.ports.ray import RayJobSeen, RayReading
from fleet.readmodels.gang_verdicts import verdicts
from tests.builders import T0, TestClock, an_incident
from tests.gang_builders import a_member, an_object
from tests.unit.gangs.ray_scenes import RAY, a_placement, a_ray_gang, a_reading
from tests.unit.gangs.test_conditions_survey import a_job_object, board_of, job_gang

pytestmark = pytest.mark.django_db
OOM = EventSeen("train", "Pod", "w0", "OOMKilled", "killed with password=hunter2hunter2", "Warning", T0)
LOG = "step 1\nHF_TOKEN=hunter2hunter2\nCUDA error: uncorrectable ECC error\n"


class Inline(ThreadPoolExecutor):
    """Does at once what it is given."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **named: Any) -> Future[Any]:
        work(*args, **named)
        return Future()


class BlackBox:
    """Endings of a cluster whose dashboard and API server answer as a test says."""

    def __init__(self, session: Session, clock: TestClock) -> None:
        self.session, self.clock = session, clock
        job = RayJobSeen("01000000", "raysubmit_1", "FAILED", "Job entrypoint failed", T0, T0)
        self.readings: dict[str, RayReading] = {
            RAY: a_reading(0, placement_groups=(a_placement("pg", name="llm"),), jobs=(job,))
        }
        self.dashboard_is_away = self.events_are_forbidden = False
        self.asked: list[tuple[str, str, str]] = []
        self.begin()

    def begin(self) -> None:
        """As after a start of the observer."""
        self.endings = GangEndings(
            self.session, lambda: self.readings, lambda key: self,
            lambda names: verdicts(self.session.cluster_id, names), lambda: self.events,
        )  # fmt: skip
        self.endings._pool = Inline()

    def read(self) -> RayReading:
        raise NotImplementedError

    def log_tail(self, submission: str, lines: int = 1000) -> str:
        if self.dashboard_is_away:
            raise TemporaryError("The dashboard at llm cannot be reached.")
        return LOG if submission == "raysubmit_1" else ""

    def events(self, kind: str, name: str, namespace: str) -> list[EventSeen]:
        self.asked.append((kind, name, namespace))
        if self.events_are_forbidden:
            raise MissingRight("list", "events")
        return [OOM] if (kind, name) == ("Pod", "w0") else []

    def look(self, *gangs: Any, seconds: float = 2) -> None:
        """One look; what it began to gather is written with it or with the next."""
        for _ in range(2):
            self._turn(gangs, seconds)

    def _turn(self, gangs: Any, seconds: float) -> None:
        now = self.clock.tick(seconds)
        if self.endings.look(board_of(*gangs), now):
            with transaction.atomic():
                self.endings.store(now)
            self.endings.settle(now)


@pytest.fixture
def box(session: Session, clock: TestClock) -> BlackBox:
    return BlackBox(session, clock)


def failed_job(**fields: Any) -> GangObject:
    said = (Said("UNKNOWN", "exit code 1", T0, "RayJob Failed: AppFailed"),)
    return a_job_object(**{"finished": True, "phase": "Failed", "ended_at": T0, "said": said, **fields})


NODES = ("gpu-r01-01", "gpu-r01-02")
PODS = [a_member(f"w{n}", RAY, node=node, role="gpu") for n, node in enumerate(NODES)]
RUNS = job_gang(members=PODS)
FAILS = job_gang(job=failed_job(), members=PODS)


def test_a_failure_is_kept_with_all_that_was_known_then(box: BlackBox, session: Session) -> None:
    sick = Node.objects.get(name=NODES[0])
    fault = an_incident(sick, severity="unhealthy")
    NodeVerdict.objects.update_or_create(
        node=sick, defaults={"cluster_id": session.cluster_id, "verdict": "unhealthy", "reason": "Xid 48", "since": T0}
    )
    box.readings = {RUNS.key: box.readings[RAY]}
    box.look(RUNS)
    assert not Ending.objects.exists()
    box.look(FAILS)
    row = Ending.objects.get()
    assert (row.title, row.at, row.status, row.message) == ("RayJob job", T0, "Failed: AppFailed", "exit code 1")
    assert row.gang_key == RUNS.key
    assert "uncorrectable ECC error" in row.log_tail and "hunter2" not in row.log_tail
    assert [one["name"] for one in row.placement_groups] == ["llm"]
    assert row.nodes[0] == {
        "node": NODES[0], "verdict": "unhealthy", "reason": "Xid 48", "incident": f"INC-{fault.pk}",
    }  # fmt: skip
    assert row.nodes[1]["verdict"] == "healthy" and row.missing == []
    (event,) = row.events
    assert (event["of"], event["reason"]) == ("Pod w0", "OOMKilled") and "hunter2" not in event["message"]
    assert {kind for kind, _, _ in box.asked} == {"PodGroup", "RayCluster", "RayJob", "Pod"}
    assert GangMoment.objects.filter(kind="ending", gang_key=RUNS.key).count() == 1


def test_it_is_kept_once_however_often_it_is_seen_and_over_starts(box: BlackBox) -> None:
    box.look(RUNS)
    for _ in range(3):
        box.look(replace(FAILS))
    box.begin()
    box.look(replace(FAILS))
    assert Ending.objects.count() == 1


def test_when_the_cluster_goes_the_job_that_is_left_is_the_same_failure_and_keeps_its_nodes(box: BlackBox) -> None:
    lone = failed_job()
    box.look(RUNS)
    left = replace(RUNS, key=lone.ref.key, objects=(lone,), nodes=(), members=(), state="finished")
    box.look(left)
    row = Ending.objects.get()
    assert row.gang_key == RUNS.key and [one["node"] for one in row.nodes] == list(NODES)
    box.look(FAILS)
    box.begin()
    box.look(left)
    assert Ending.objects.count() == 1


def test_what_could_not_be_had_is_said(box: BlackBox) -> None:
    box.dashboard_is_away = box.events_are_forbidden = True
    box.readings = {FAILS.key: box.readings[RAY]}
    box.look(FAILS)
    told = " ".join(Ending.objects.get().missing)
    assert "cannot be reached" in told and "may not list events" in told
    box.readings = {}
    box.look(replace(FAILS, key="volcano/PodGroup/other/pg"))
    told = " ".join(Ending.objects.latest("pk").missing)
    assert "no dashboard told which job" in told and "placement groups" in told


def test_a_failure_of_long_ago_is_no_news(box: BlackBox) -> None:
    box.look(job_gang(job=failed_job(ended_at=T0 - LATE - timedelta(minutes=1)), members=PODS))
    assert not Ending.objects.exists()


def test_a_job_that_tells_no_time_of_its_end_fails_once(box: BlackBox) -> None:
    gang = job_gang(job=failed_job(ended_at=None), members=PODS)
    for _ in range(3):
        box.look(replace(gang), seconds=60)
    box.begin()
    box.look(replace(gang))
    assert Ending.objects.count() == 1


def test_what_ends_well_or_goes_on_is_no_failure(box: BlackBox) -> None:
    for phase, finished in (("Complete", True), ("Running", False), ("Failed", False)):
        box.look(job_gang(job=a_job_object(phase=phase, finished=finished, ended_at=T0), members=PODS))
    assert not Ending.objects.exists()


@pytest.mark.parametrize(("system", "kind"), [("jobset", "JobSet"), ("kubeflow", "PyTorchJob"), ("volcano", "Job")])
def test_jobs_of_other_kinds_fail_too(box: BlackBox, system: Any, kind: str) -> None:
    one = an_object(system, "j", kind=kind, finished=True, phase="Failed", ended_at=T0, wanted=2)
    box.look(replace(a_ray_gang(members=PODS), key=one.ref.key, objects=(one,)))
    row = Ending.objects.get()
    assert (row.title, row.status, row.log_tail, row.placement_groups) == (f"{kind} j", "Failed", "", [])
    assert "driver" not in " ".join(row.missing)


def test_whatever_goes_wrong_in_gathering_the_failure_is_kept(box: BlackBox, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(box, "log_tail", broken)
    box.readings = {FAILS.key: box.readings[RAY]}
    box.look(FAILS)
    assert "gathering ended" in " ".join(Ending.objects.get().missing)
