"""Gangs, queues, what-ifs and the linter by API: shapes, scopes, and answers that are not known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from pytest import MonkeyPatch

from fleet.access.services import create_token
from fleet.gangs import asking, board
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK
from tests.builders import T0, a_cluster
from tests.domain.dashboard_details.conftest import client_of
from tests.gang_answers import answering
from tests.gang_rows import a_condition, a_gang_row, a_moment, a_queue_row, blocked_by
from tests.unit.gangs.scenes import OUT, a_gang, a_room

pytestmark = pytest.mark.django_db
PATHS = ("/api/v1/gangs", "/api/v1/gangs/volcano/PodGroup/train/llm", "/api/v1/queues", "/api/v1/what-if?return=a")
EXACT = """apiVersion: ray.io/v1
kind: RayCluster
metadata: {name: llm, namespace: train}
spec:
  rayVersion: "2.50.0"
  gcsFaultToleranceOptions: {redisAddress: "redis:6379"}
  headGroupSpec:
    rayStartParams: {}
    template: {spec: {containers: [{name: head, image: ray}]}}
  workerGroupSpecs:
    - groupName: workers
      replicas: 4
      minReplicas: 4
      maxReplicas: 4
      rayStartParams: {}
      template: {spec: {containers: [{name: worker, image: ray}]}}
"""


@pytest.fixture
def watched(db: None) -> Cluster:
    return a_cluster(observer_until=SYSTEM_CLOCK.now() + timedelta(minutes=5))


def token(cluster: str = "", scope: str = "read") -> dict[str, str]:
    _row, secret = create_token(name="t", scope=scope, now=SYSTEM_CLOCK.now(), by="test", cluster=cluster)
    return {"authorization": f"Bearer {secret}"}


def read(client: Client, path: str, headers: dict[str, str], status: int = 200) -> Any:
    answer = client.get(path, headers=headers)
    assert answer.status_code == status, answer.content
    return answer.json()


def a_board() -> Board:
    rooms = Rooms([a_room("gpu-0", 8), a_room("gpu-1", 8), a_room("out", out=OUT)])
    gangs = {gang.key: gang for gang in (a_gang("llm", 1), a_gang("runs", 2, 2))}
    return board.read(gangs, [], rooms)


@pytest.mark.parametrize("path", PATHS)
def test_nobody_reads_without_a_credential(client: Client, path: str) -> None:
    assert client.get(path).status_code == 401


@pytest.mark.parametrize("path", [*PATHS, "/api/v1/gangs/lint"])
def test_a_token_that_pushes_reads_nothing(client: Client, path: str) -> None:
    call = client.post if path.endswith("lint") else client.get
    assert call(path, headers=token(scope="push")).status_code == 401


def test_a_gang_is_told_with_reason_nodes_and_conditions(client: Client, watched: Cluster) -> None:
    row = a_gang_row(watched, "llm", **blocked_by("gpu-r07-03", ticket="TKT-3"))
    a_condition(row)
    told = read(client, "/api/v1/gangs", token())
    assert told["count"] == 1
    (gang,) = told["items"]
    assert (gang["key"], gang["placed"], gang["minimum"], gang["gpus_held_idle"]) == (row.key, 3, 4, 24)
    assert gang["reason"]["code"] == "NODE_UNHEALTHY"
    assert gang["reason"]["raw"] == "3/4 tasks in gang unschedulable"
    assert [one["node"] for one in gang["blockers"]] == ["gpu-r07-03"]
    assert [one["code"] for one in gang["conditions"]] == ["headroom_exact"]
    assert gang["money_idle"] is None


def test_one_gang_is_told_with_its_members_and_its_timeline(client: Client, watched: Cluster) -> None:
    row = a_gang_row(watched, "llm")
    a_moment(row, 1, "state", "partial", placed=3, minimum=4, gpus_held=24)
    told = read(client, f"/api/v1/gangs/{row.key}", token())
    assert {one["state"] for one in told["members"]} == {"ready", "pending"}
    assert told["timeline"][0]["text"] == "Partly placed. 3 of 4 placed, 24 GPUs held."


def test_a_key_of_two_clusters_asks_which(client: Client, watched: Cluster) -> None:
    key = a_gang_row(watched, "llm").key
    a_gang_row(a_cluster("busan-1"), "llm")
    assert "demo" in read(client, f"/api/v1/gangs/{key}", token(), 409)["detail"]
    assert read(client, f"/api/v1/gangs/{key}?cluster=demo", token())["cluster"] == "demo"


def test_a_token_of_a_cluster_sees_no_other(client: Client, watched: Cluster) -> None:
    hidden = a_gang_row(a_cluster("busan-1"), "secret")
    a_queue_row(hidden.cluster, "hidden")
    mine = token("demo")
    assert read(client, "/api/v1/gangs", mine)["items"] == []
    assert read(client, "/api/v1/gangs?cluster=busan-1", mine)["items"] == []
    assert read(client, "/api/v1/queues", mine)["items"] == []
    read(client, f"/api/v1/gangs/{hidden.key}", mine, 404)
    read(client, "/api/v1/what-if?cluster=busan-1&drain=a", mine, 404)


def test_lists_are_cut_and_filtered(client: Client, watched: Cluster) -> None:
    for number in range(5):
        a_gang_row(watched, f"g{number}", placed=number % 2 * 4)
    told = read(client, "/api/v1/gangs?state=waits&limit=2", token())
    assert (told["count"], len(told["items"])) == (3, 2)
    read(client, "/api/v1/gangs?state=nonsense", token(), 422)


def test_a_queue_is_told_with_its_quotas(client: Client, watched: Cluster) -> None:
    a_queue_row(watched, "train", share=0.5)
    a_gang_row(watched, "llm")
    (queue,) = read(client, "/api/v1/queues", token())["items"]
    assert (queue["gangs_waiting"], queue["gpus_held_idle"]) == (1, 24)
    assert queue["quotas"][0]["guaranteed"] == 64
    assert "allocated over deserved" in queue["share_means"]


def test_a_what_if_is_answered_by_the_observer(client: Client, watched: Cluster) -> None:
    a_gang_row(watched, "runs", title="RayJob nightly")
    with answering(watched.pk, a_board()):
        back = read(client, "/api/v1/what-if?return=out", token())
        drained = read(client, "/api/v1/what-if?drain=gpu-0,nowhere", token())
        freed = read(client, "/api/v1/what-if?suspend=volcano/PodGroup/train/runs", token())
    assert back["known"] and back["gpus"] == 8
    assert [one["key"] for one in back["starts"]] == ["volcano/PodGroup/train/llm"]
    assert back["at"] == "2026-11-29T03:00:00Z"
    assert [(one["loses"], one["left"], one["breaks"], one["again"]) for one in drained["broken"]] == [
        (1, 1, True, False)
    ]
    assert drained["unknown"] == ["nowhere"]
    assert freed["starts_count"] == 1 and freed["gpus_free_then"] == 16
    assert freed["question"] == "RayJob train/nightly is suspended"


def test_without_an_observer_a_what_if_is_not_known(client: Client) -> None:
    a_cluster(observer_until=T0)
    told = read(client, "/api/v1/what-if?return=out", token())
    assert (told["known"], told["sentence"]) == (False, "Not known: no observer watches it.")


def test_an_observer_that_is_silent_makes_it_not_known(
    client: Client, watched: Cluster, monkeypatch: MonkeyPatch
) -> None:
    monkeypatch.setattr(asking.ask, "__defaults__", (0.05,))
    told = read(client, "/api/v1/what-if?drain=gpu-0", token())
    assert (told["known"], told["starts"]) == (False, [])


@pytest.mark.parametrize("query", ["", "?return=a&drain=b", "?return=,", "?suspend="])
def test_a_what_if_asks_for_one_thing(client: Client, watched: Cluster, query: str) -> None:
    read(client, f"/api/v1/what-if{query}", token(), 422)


@pytest.mark.parametrize("kind", ["application/yaml", "application/json"])
def test_a_manifest_is_linted(client: Client, watched: Cluster, kind: str) -> None:
    body: Any = {"manifest": EXACT} if kind.endswith("json") else EXACT
    answer = client.post("/api/v1/gangs/lint", body, content_type=kind, headers=token())
    assert answer.status_code == 200, answer.content
    told = answer.json()
    assert not told["ok"] and told["looked"] == ["ray/RayCluster/train/llm"]
    exact = next(one for one in told["findings"] if one["code"] == "headroom_exact")
    assert (exact["line"], exact["severity"]) == (14, "warning")


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("- [", "application/yaml", 200),
        (b"\xff\xfe", "application/yaml", 422),
        ("{", "application/json", 422),
        ('{"manifest": 3}', "application/json", 422),
        ('["manifest"]', "application/json", 422),
        ("", "application/yaml", 200),
    ],
)
def test_what_is_no_manifest_is_told_so(client: Client, body: Any, kind: str, status: int) -> None:
    answer = client.post("/api/v1/gangs/lint", body, content_type=kind, headers=token())
    assert answer.status_code == status
    if status == 200:
        assert not answer.json()["ok"]


def test_a_session_lints_with_the_pages_own_token_alone(db: None) -> None:
    browser = client_of("viewer")
    browser.handler.enforce_csrf_checks = True
    answer = browser.post("/api/v1/gangs/lint", EXACT, content_type="application/yaml")
    assert answer.status_code == 403


def test_all_of_it_is_in_the_schema(client: Client) -> None:
    paths = read(client, "/api/v1/openapi.json", {})["paths"]
    for path in ("gangs", "gangs/{key}", "queues", "what-if", "gangs/lint"):
        assert f"/api/v1/{path}" in paths
    assert "requestBody" in paths["/api/v1/gangs/lint"]["post"]
