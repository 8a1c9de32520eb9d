"""Jobs that Muster suspended, when it leaves: said clearly, started again by hand, and never left behind unseen."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fleet import wiring, wiring_gangs
from fleet.inventory.models import Cluster
from fleet.lifecycle.suspending.models import Suspension
from fleet.ports.errors import MissingRight, UnknownOutcome
from fleet.ports.suspends import Job
from tests.builders import T0, a_cluster
from tests.domain.ops.test_answers import said

pytestmark = pytest.mark.django_db
MARK = "7/op-1"


class Place:
    """Jobs of a cluster; `error` is what each write comes to."""

    def __init__(self) -> None:
        self.jobs = {name: a_job(name) for name in ("llm", "vision")}
        self.error: Exception | None = None
        self.writes: list[tuple[str, bool | None, str | None]] = []

    def read(self, kind: str, namespace: str, name: str) -> Job:
        return self.jobs[name]

    def change(self, job: Job, suspended: bool | None, mark: str | None) -> None:
        if self.error is not None:
            raise self.error
        self.writes.append((job.name, suspended, mark))
        self.jobs[job.name] = a_job(job.name, suspended=bool(suspended), mark=mark or "")


def a_job(name: str, suspended: bool = True, mark: str = MARK) -> Job:
    return Job("JobSet", "train", name, f"u-{name}", "1", 2, suspended=suspended, ended=False, mark=mark)


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Place:
    found = Place()
    monkeypatch.setattr(wiring, "reader", lambda cluster: SimpleNamespace(nodes=list))
    monkeypatch.setattr(wiring_gangs, "suspends", lambda cluster, namespaces=(): found)
    return found


@pytest.fixture
def cluster(place: Place) -> Cluster:
    cluster = a_cluster()
    for number, name in enumerate(("llm", "vision"), 1):
        Suspension.objects.create(
            cluster_id=cluster.pk, kind="JobSet", namespace="train", name=name, uid=f"u-{name}", mark=MARK,
            generation=1, nodes=[f"gpu-{number}"], state=Suspension.SUSPENDED, begun_at=T0, asked_at=T0,
            until=T0 + timedelta(days=3000),
        )  # fmt: skip
    return cluster


def gone(cluster: Cluster, **fields: Any) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(**fields)


@pytest.mark.parametrize(
    ("fields", "why"),
    [({"mode": "observe"}, "its cluster is in mode observe"), ({"removed_at": T0}, "the cluster was removed")],
)
def test_the_list_says_where_nothing_starts_a_job_again(cluster: Cluster, fields: dict[str, Any], why: str) -> None:
    assert "started again when that is over" in said("holds", "list") and "NOTHING" not in said("holds", "list")
    gone(cluster, **fields)
    text = said("holds", "list")
    assert f"NOTHING STARTS IT AGAIN, for {why}: `manage.py holds release --all --cluster demo" in text


@pytest.mark.parametrize("fields", [{}, {"mode": "observe"}, {"removed_at": T0, "mode": "observe"}])
def test_a_release_of_all_starts_them_whatever_the_mode_and_once(
    cluster: Cluster, place: Place, fields: dict[str, Any]
) -> None:
    gone(cluster, **fields)
    for _ in range(2):
        call_command("holds", "release", all=True, reason="we leave")
    assert sorted(place.writes) == [("llm", False, None), ("vision", False, None)]
    assert not Suspension.objects.filter(ended_at=None).exists()


def test_a_release_of_one_node_starts_those_that_ran_there(cluster: Cluster, place: Place) -> None:
    assert "JobSet train/vision: It is started again." in said("holds", "release", "gpu-2", reason="x")
    assert [name for name, *_ in place.writes] == ["vision"]


def test_a_job_that_is_others_by_now_is_left_alone(cluster: Cluster, place: Place) -> None:
    place.jobs["llm"] = a_job("llm", mark="")
    call_command("holds", "release", all=True, reason="we leave")
    assert [name for name, *_ in place.writes] == ["vision"]


@pytest.mark.parametrize("error", [MissingRight("patch", "jobsets"), UnknownOutcome("cut off")])
def test_what_cannot_be_started_is_said_and_stays_ours(cluster: Cluster, place: Place, error: Exception) -> None:
    place.error = error
    with pytest.raises(CommandError, match="2 hold"):
        call_command("holds", "release", all=True, reason="we leave")
    assert Suspension.objects.filter(ended_at=None).count() == 2


def test_a_cluster_is_removed_once_its_jobs_are_started_again(cluster: Cluster, place: Place) -> None:
    said("cluster", "remove", "demo")
    assert len(place.writes) == 2 and Cluster.objects.get().removed_at is not None


def test_a_cluster_whose_jobs_cannot_be_started_is_not_removed_unless_one_says_so(
    cluster: Cluster, place: Place
) -> None:
    place.error = MissingRight("patch", "jobsets")
    with pytest.raises(CommandError, match=r"JobSet train/llm .*jobsets.*--leave-suspended"):
        call_command("cluster", "remove", "demo")
    assert Cluster.objects.get().removed_at is None and Cluster.objects.get().mode == "automate"
    text = said("cluster", "remove", "demo", leave_suspended=True)
    assert "JobSet train/llm" in text and "nothing starts it again" in text
    assert Cluster.objects.get().removed_at is not None


def test_without_a_credential_that_acts_it_is_said_so(
    cluster: Cluster, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring_gangs, "suspends", lambda cluster, namespaces=(): None)
    with pytest.raises(CommandError, match="no credential that acts"):
        call_command("cluster", "remove", "demo")
