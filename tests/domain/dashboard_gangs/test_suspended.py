"""A gang whose job Muster suspended for a drain says so: why, until when, and on its timeline."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from fleet.access.services import create_token
from fleet.gangs.models import GangRow
from fleet.inventory.models import Cluster
from fleet.lifecycle.suspending.models import Suspension
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import gang_reasons, gang_suspended
from tests.builders import T0
from tests.gang_rows import a_gang_row, a_moment

OURS = "Muster suspended RayJob train/llm at"


def a_suspension(cluster: Cluster, **fields: Any) -> Suspension:
    """Of RayJob train/llm, for the drain of gpu-1 and gpu-2, since T0 and open, unless told."""
    values: dict[str, Any] = {
        "cluster_id": cluster.pk, "kind": "RayJob", "namespace": "train", "name": "llm", "uid": "u", "generation": 1,
        "mark": "m", "nodes": ["gpu-1", "gpu-2"], "state": Suspension.SUSPENDED, "begun_at": T0, "asked_at": T0,
        "suspended_at": T0, "until": T0 + timedelta(hours=6),
    }  # fmt: skip
    return Suspension.objects.create(**{**values, **fields})


def a_suspended_gang(cluster: Cluster, **fields: Any) -> GangRow:
    told: dict[str, Any] = {"placed": 0, "state": "suspended", "reason_code": "SUSPENDED", "reason": {}, **fields}
    return a_gang_row(cluster, "llm", **told)


def page(client: Client, path: str) -> str:
    answer = client.get(path)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", answer.content.decode())).replace("&#x27;", "'")


def test_the_page_says_for_which_drain_and_until_when(viewer: Client, cluster: Cluster) -> None:
    gang = a_suspended_gang(cluster)
    a_suspension(cluster)
    shown = page(viewer, f"/gangs/{gang.pk}/")
    until = f"{T0 + timedelta(hours=6):%Y-%m-%d %H:%M} UTC at the latest"
    assert f"for the drain of gpu-1, gpu-2, and starts it again after it, at {until}" in shown
    assert "Muster starts it again when none of its nodes is to be drained any more." in shown
    assert "it is not to start now." not in shown and "Whoever suspended it" not in shown


def test_the_list_and_the_api_say_it_too(viewer: Client, cluster: Cluster) -> None:
    a_suspended_gang(cluster)
    a_suspension(cluster)
    assert OURS in page(viewer, "/queues/")
    _row, secret = create_token(name="t", scope="read", now=SYSTEM_CLOCK.now(), by="test")
    told = viewer.get("/api/v1/gangs", headers={"authorization": f"Bearer {secret}"}).json()
    assert told["items"][0]["reason"]["sentence"].startswith(OURS)


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "other"},
        {"namespace": "prod"},
        {"kind": "JobSet"},
        {"cluster_id": 0},
        {"suspended_at": None, "state": Suspension.ASKED},
        {"ended_at": T0 + timedelta(minutes=1), "state": Suspension.RESUMED},
    ],
)
def test_what_somebody_else_suspended_is_not_ours(viewer: Client, cluster: Cluster, fields: dict[str, Any]) -> None:
    gang = a_suspended_gang(cluster)
    a_suspension(cluster, **fields)
    for path in (f"/gangs/{gang.pk}/", "/queues/"):
        shown = page(viewer, path)
        assert "It is suspended: it is not to start now." in shown and "and starts it again after it" not in shown


def test_it_is_found_by_any_object_that_speaks_of_the_gang(viewer: Client, cluster: Cluster) -> None:
    workload = {"system": "kueue", "kind": "Workload", "namespace": "train", "name": "rayjob-llm-1", "phase": ""}
    gang = a_suspended_gang(cluster, objects_seen=[workload])
    a_suspension(cluster, kind="Workload", name="rayjob-llm-1")
    for path in (f"/gangs/{gang.pk}/", "/queues/"):
        assert "Muster suspended Workload train/rayjob-llm-1 at" in page(viewer, path)


def test_the_timeline_has_its_beginning_and_its_end_in_their_place(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", placed=4)
    a_moment(gang, -5, "state", "running", placed=4, minimum=4, gpus_held=32)
    a_moment(gang, 5, "state", "suspended")
    a_suspension(cluster, state=Suspension.RESUMED, ended_at=T0 + timedelta(minutes=9), text="It is started again.")
    shown = page(viewer, f"/gangs/{gang.pk}/")
    lines = [
        "Muster started RayJob train/llm again.",
        "Suspended.",
        "Muster suspended RayJob train/llm for",
        "Running.",
    ]
    timeline = shown[shown.index("Timeline") :]
    places = [timeline.index(text) for text in (*lines, "4 of 4 placed, 32 GPUs held.")]
    assert places == sorted(places)


def test_a_job_that_is_not_ours_any_more_says_why(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", placed=4)
    why = "Somebody had started it already; our mark is taken off."
    a_suspension(cluster, state=Suspension.LEFT, ended_at=T0 + timedelta(minutes=9), text=why)
    shown = page(viewer, f"/gangs/{gang.pk}/")
    assert "RayJob train/llm is no longer Muster's to start again." in shown and why in shown


def test_what_was_asked_for_and_never_happened_is_no_line(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", placed=4)
    a_suspension(cluster, state=Suspension.LEFT, ended_at=T0, text="It was changed by somebody else.")
    assert "Muster suspended" not in page(viewer, f"/gangs/{gang.pk}/")


def test_a_job_whose_pods_alone_were_known_says_it_when_they_are_gone(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(
        cluster, "eval", key="pods/Job/train/eval", system="pods", kind="Job", title="Job eval", gone_at=T0
    )
    a_suspension(cluster, kind="Job", name="eval")
    shown = page(viewer, f"/gangs/{gang.pk}/")
    assert "It went away" in shown and "Muster suspended Job train/eval at" in shown


def test_a_right_that_lacks_is_told(viewer: Client, cluster: Cluster) -> None:
    gang = a_suspended_gang(cluster)
    a_suspension(cluster, text="May not patch rayjobs.")
    assert "It could not be started again so far: May not patch rayjobs." in page(viewer, f"/gangs/{gang.pk}/")


def test_all_of_it_is_said_in_korean_too(viewer: Client, cluster: Cluster) -> None:
    row = a_suspension(cluster, text="The job is gone.", state=Suspension.LEFT, ended_at=T0 + timedelta(minutes=9))
    again = Suspension(**{**{f.attname: getattr(row, f.attname) for f in row._meta.fields}, "state": "resumed"})
    with translation.override("ko"):
        why = gang_suspended.ours(gang_reasons.told("SUSPENDED", {}), "")
        said = (gang_suspended.stands(row), gang_suspended.began(row), *map(gang_suspended.ended, (row, again)))
    for sentence in (*said, why.waits, why.do):
        assert re.search("[가-힣]", sentence) and "Muster " not in sentence, sentence
