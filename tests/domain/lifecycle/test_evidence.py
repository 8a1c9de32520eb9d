"""A RayJob that failed on a sick node keeps its Ray cluster while people look, and never longer than was said."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.audit.models import AuditRow
from fleet.gangs.models import Ending, GangMoment
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import evidence
from fleet.ports.errors import Conflict, MissingRight, NotFound, TemporaryError, UnknownOutcome
from fleet.ports.rayjobs import FailedJob
from fleet.readmodels.gang_page import moment
from tests.builders import T0, TestClock, a_cluster, a_node, an_incident
from tests.domain.lifecycle.world import Crash
from tests.gang_rows import a_gang_row

NODE, HOUR = "gpu-1", 3600.0


class Jobs:
    """One RayJob as its API server keeps it, and every write that came."""

    def __init__(self, **fields: object) -> None:
        values: dict[str, object] = {"uid": "u-1", "version": "1", "failed": True, "shuts_down": True, "ttl": 600}
        values |= {"ended_at": T0, "mark": ""}
        self.job: FailedJob | None = FailedJob(**{**values, **fields})  # type: ignore[arg-type]
        self.writes: list[tuple[int | None, str | None]] = []
        self.reads = 0
        self.before: Callable[[], None] = lambda: None
        self.after: Callable[[], None] = lambda: None

    def allows(self, namespace: str) -> bool:
        return namespace == "train"

    def read(self, namespace: str, name: str) -> FailedJob:
        assert (namespace, name) == ("train", "llm")
        self.reads += 1
        if self.job is None:
            raise NotFound("llm")
        return self.job

    def change(self, namespace: str, name: str, version: str, ttl: int | None, mark: str | None) -> None:
        self.before()
        assert self.job is not None
        if version != self.job.version:
            raise Conflict("changed")
        self.writes.append((ttl, mark))
        self.person(ttl=self.job.ttl if ttl is None else ttl, mark=mark or "")
        self.after()

    def person(self, **fields: object) -> None:
        assert self.job is not None
        version = str(int(self.job.version) + 1)
        self.job = dataclasses.replace(self.job, version=version, **fields)  # type: ignore[arg-type]

    def check(self) -> list[str]:
        return []


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def cluster(db: None) -> Cluster:
    return failed_on(NODE)


def failed_on(name: str, incident: bool = True) -> Cluster:
    cluster = a_cluster(mode=Mode.AUTOMATE)
    node = a_node(cluster, name)
    gang = a_gang_row(cluster, key="ray/RayCluster/train/llm-x7")
    told = [{"node": name, "verdict": "unhealthy", "reason": "xid_79", "incident": ""}]
    Ending.objects.create(
        cluster=cluster, gang_key=gang.key, title="RayJob llm", at=T0, status="Failed", message="", nodes=told
    )
    if incident:
        an_incident(node)
    return cluster


def over() -> None:
    Incident.objects.update(state="resolved")


def look(cluster: Cluster, jobs: Jobs, after: float = 60) -> None:
    evidence.sweep(cluster, jobs, HOUR, T0 + timedelta(seconds=after))


def line() -> GangMoment:
    return GangMoment.objects.get(kind="kept")


def test_it_is_kept_once_and_given_back_when_the_incident_is_over(cluster: Cluster) -> None:
    jobs = Jobs()
    for after in (60, 75, 90):
        look(cluster, jobs, after)
    assert [ttl for ttl, _ in jobs.writes] == [3660] and jobs.job is not None
    assert jobs.job.mark == line().facts["mark"] and line().what == "kept"
    assert "keeps RayJob train/llm until" in moment(line()).lead
    over()
    for after in (105, 120):
        look(cluster, jobs, after)
    assert jobs.writes[1:] == [(600, None)] and (jobs.job.ttl, jobs.job.mark) == (600, "")
    assert line().what == "returned" and "its own time again" in moment(line()).lead
    assert list(AuditRow.objects.order_by("seq").values_list("action", flat=True)) == [
        "evidence.keep", "evidence.return",
    ]  # fmt: skip


@pytest.mark.parametrize("mode", [Mode.OBSERVE, Mode.RECOMMEND])
def test_no_other_mode_writes_or_reads_anything(cluster: Cluster, mode: Mode) -> None:
    cluster.mode = mode
    jobs = Jobs()
    look(cluster, jobs)
    assert (jobs.writes, jobs.reads) == ([], 0) and not GangMoment.objects.filter(kind="kept").exists()


@pytest.mark.parametrize(
    "fields",
    [{"failed": False}, {"shuts_down": False}, {"ttl": 7200}, {"ttl": 30}, {"mark": "9/another/60"}],
    ids=lambda fields: next(iter(fields)),
)
def test_what_need_not_or_cannot_be_kept_is_left_alone(cluster: Cluster, fields: dict[str, object]) -> None:
    jobs = Jobs(**fields)
    look(cluster, jobs)
    assert jobs.writes == [] and not GangMoment.objects.filter(kind="kept").exists()


def test_a_failure_on_healthy_nodes_is_nobodys_evidence(db: None) -> None:
    jobs = Jobs()
    look(failed_on(NODE, incident=False), jobs)
    assert (jobs.writes, jobs.reads) == ([], 0)


def test_a_failure_of_long_ago_is_left_alone(cluster: Cluster) -> None:
    jobs = Jobs(ttl=7000)
    look(cluster, jobs, 3700)
    assert jobs.writes == []


def test_a_place_that_nobody_allowed_is_not_looked_at(cluster: Cluster) -> None:
    Ending.objects.update(gang_key="ray/RayCluster/other/llm-x7")
    jobs = Jobs()
    look(cluster, jobs)
    assert jobs.reads == 0


@pytest.mark.parametrize(("change", "ends"), [({"ttl": 86_400}, 86_400), ({"mark": ""}, 3660)])
def test_what_a_person_changed_meanwhile_stays(cluster: Cluster, change: dict[str, object], ends: int) -> None:
    jobs = Jobs()
    look(cluster, jobs)
    jobs.person(**change)
    over()
    look(cluster, jobs, 90)
    look(cluster, jobs, 105)
    assert jobs.job is not None and (jobs.job.ttl, jobs.job.mark) == (ends, "")
    assert line().what in ("returned", "left") and line().facts["raw"] != ""


def test_a_job_of_the_same_name_is_another_job(cluster: Cluster) -> None:
    jobs = Jobs()
    look(cluster, jobs)
    jobs.person(uid="u-2", mark="", ttl=5)
    over()
    look(cluster, jobs, 90)
    assert len(jobs.writes) == 1 and line().what == "left"


def test_a_lowered_mode_writes_nothing_and_the_line_ends_with_its_time(cluster: Cluster) -> None:
    jobs = Jobs()
    look(cluster, jobs)
    cluster.mode = Mode.OBSERVE
    over()
    look(cluster, jobs, 90)
    assert len(jobs.writes) == 1 and line().what == "kept", "the timeline still says until when"
    look(cluster, jobs, 60 + HOUR)
    assert len(jobs.writes) == 1 and line().what == "left"


def test_a_right_that_lacks_is_told_on_the_timeline_and_not_asked_for_ever(cluster: Cluster) -> None:
    jobs = Jobs()

    def refuse() -> None:
        raise MissingRight("patch", "rayjobs")

    jobs.before = refuse
    for after in (60, 75, 90):
        look(cluster, jobs, after)
    assert jobs.writes == [] and line().what == "left" and "patch rayjobs" in line().facts["raw"]
    assert "patch rayjobs" in moment(line()).raw


def _fail(kind: str) -> Exception | BaseException:
    kinds = {"crash": Crash(), "lost": UnknownOutcome("cut"), "busy": TemporaryError("busy"), "race": Conflict("x")}
    return kinds[kind]


@settings(max_examples=60, deadline=None)
@given(
    troubles=st.lists(
        st.tuples(st.sampled_from(["before", "after"]), st.sampled_from(["crash", "lost", "busy", "race"])), max_size=5
    ),
    ends_at=st.integers(0, 8),
)
@pytest.mark.django_db(transaction=False)
def test_whatever_breaks_it_is_extended_once_and_given_back_once(troubles: list[tuple[str, str]], ends_at: int) -> None:
    """Crashes and lost answers around every write: never two extensions, never anything of ours left behind."""
    from django.db import transaction

    with transaction.atomic():
        cluster, jobs = failed_on(NODE), Jobs()
        left = list(troubles)

        def trouble(place: str) -> None:
            if left and left[0][0] == place:
                _, kind = left.pop(0)
                if kind == "race" and place == "before":
                    jobs.person()
                    return
                raise _fail(kind)

        jobs.before, jobs.after = (lambda: trouble("before")), (lambda: trouble("after"))
        for turn in itertools.count():
            if turn == ends_at:
                over()
            try:
                look(cluster, jobs, 60 + 15 * turn)
            except Crash:
                continue
            if turn > ends_at and not left:
                break
            if turn > 30:
                left.clear()
        look(cluster, jobs, 1200)
        look(cluster, jobs, 1215)
        assert jobs.job is not None and (jobs.job.ttl, jobs.job.mark) == (600, "")
        assert sum(1 for ttl, mark in jobs.writes if mark) <= 1
        assert sum(1 for ttl, mark in jobs.writes if not mark) <= 1
        transaction.set_rollback(True)


def test_the_switch_that_stops_all_keeps_nothing_new_and_gives_back(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fleet.policy.rules import Decision

    jobs = Jobs()
    look(cluster, jobs)
    GangMoment.objects.exclude(kind="kept").delete()

    def halted(cluster_id: int, now: datetime) -> Decision:
        return Decision(False, "kill_switch", "stopped")

    monkeypatch.setattr(evidence.policy, "halt", halted)
    over()
    look(cluster, jobs, 90)
    assert [ttl for ttl, _ in jobs.writes] == [3660, 600]
    an_incident(a_node(cluster, "gpu-2"))
    Ending.objects.create(
        cluster=cluster, gang_key="ray/RayCluster/train/llm-y8", title="RayJob llm", at=T0, status="Failed",
        nodes=[{"node": "gpu-2"}],
    )  # fmt: skip
    look(cluster, jobs, 105)
    assert len(jobs.writes) == 2
