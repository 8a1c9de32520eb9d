"""Probes, metrics and the reading API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from django.test import Client
from redis.backoff import NoBackoff
from redis.retry import Retry

from fleet.access.models import User
from fleet.access.services import create_token
from fleet.api import probes
from fleet.bus import pulse
from fleet.inventory.models import Cluster
from fleet.lifecycle.machine import WorkflowState
from fleet.ports.clock import SYSTEM_CLOCK
from tests.builders import a_cluster, a_node, a_workflow, an_incident

pytestmark = pytest.mark.django_db
Person = Callable[..., User]


def _watched(name: str = "demo") -> Cluster:
    return a_cluster(name, observer_until=SYSTEM_CLOCK.now() + timedelta(minutes=5))


def _token(scope: str = "read", cluster: str = "") -> dict[str, str]:
    _row, secret = create_token(name="t", scope=scope, now=SYSTEM_CLOCK.now(), by="test", cluster=cluster)
    return {"authorization": f"Bearer {secret}"}


def test_liveness_needs_nothing(client: Client) -> None:
    assert client.get("/healthz").content == b"ok"


def test_readiness_says_what_is_missing_in_words(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    _watched()
    monkeypatch.setattr(pulse, "KEY", "muster:tick:test")
    pulse.beat()
    assert client.get("/readyz").json() == {"ready": True, "missing": []}
    monkeypatch.setattr(pulse, "KEY", "muster:tick:never")
    assert "No worker has run a tick" in client.get("/readyz").json()["missing"][0]
    a_cluster("busan-1", observer_until=None)
    monkeypatch.setattr(
        probes, "redis_connection", lambda: redis.Redis(port=1, socket_connect_timeout=0.2, retry=Retry(NoBackoff(), 0))
    )
    answer = client.get("/readyz")
    assert answer.status_code == 503
    missing = " ".join(answer.json()["missing"])
    assert "No observer has watched cluster busan-1 yet." in missing
    assert "Redis does not answer" in missing


def test_metrics_count_nodes_by_state_and_verdict(client: Client) -> None:
    cluster = _watched()
    a_node(cluster, "a")
    sick = a_node(cluster, "b", verdict="unhealthy")
    a_workflow(sick, an_incident(sick), state=WorkflowState.BLOCKED)
    text = client.get("/metrics").content.decode()
    assert 'muster_nodes{cluster="demo",state="in_service",verdict="unhealthy"} 1.0' in text
    assert 'muster_workflows{state="blocked"} 1.0' in text
    assert 'muster_incidents_open{cluster="demo"} 1.0' in text
    assert 'muster_tickets_open{cluster="demo"} 0.0' in text
    assert 'muster_observer_up{cluster="demo"} 1.0' in text


def test_the_schema_is_open_and_the_rest_is_not(client: Client, person: Person) -> None:
    assert client.get("/api/v1/openapi.json").json()["info"]["title"] == "Muster"
    assert client.get("/api/v1/nodes").status_code == 401
    assert client.get("/api/v1/nodes", headers=_token("push")).status_code == 401
    client.force_login(person(""))
    assert client.get("/api/v1/nodes").status_code == 403


def test_nodes_are_filtered_and_paged(viewer: Client) -> None:
    cluster = _watched()
    for number in range(5):
        a_node(cluster, f"gpu-{number}", verdict="unhealthy" if number % 2 else "healthy")
    answer = viewer.get("/api/v1/nodes", {"verdict": "healthy", "limit": "1", "offset": "1"}).json()
    assert answer["count"] == 3
    assert [item["name"] for item in answer["items"]] == ["gpu-2"]


def test_a_token_of_one_cluster_sees_nothing_of_another(client: Client) -> None:
    a_node(_watched("seoul-1"), "gpu-near")
    far = a_node(_watched("busan-1"), "gpu-far")
    an_incident(far)
    token = _token(cluster="seoul-1")
    assert [item["name"] for item in client.get("/api/v1/nodes", headers=token).json()["items"]] == ["gpu-near"]
    assert client.get("/api/v1/nodes/gpu-far", headers=token).status_code == 404
    assert client.get("/api/v1/incidents", headers=token).json()["count"] == 0


def test_a_name_in_two_clusters_asks_which(viewer: Client) -> None:
    a_node(_watched("seoul-1"), "gpu-1")
    a_node(_watched("busan-1"), "gpu-1")
    assert viewer.get("/api/v1/nodes/gpu-1").status_code == 409
    assert viewer.get("/api/v1/nodes/gpu-1", {"cluster": "busan-1"}).json()["cluster"] == "busan-1"


def test_why_answers_for_one_node(viewer: Client) -> None:
    sick = a_node(_watched(), verdict="unhealthy")
    a_workflow(
        sick, an_incident(sick), state=WorkflowState.BLOCKED, blocked_code="cap", blocked_text="Rack r01: 2 of 2"
    )
    answer = viewer.get("/api/v1/nodes/gpu-r01-01/why").json()
    assert answer["node"] == "gpu-r01-01"
    assert answer["blocked"]["text"] == "Rack r01: 2 of 2"


def test_workflows_and_incidents_are_listed(viewer: Client) -> None:
    sick = a_node(_watched(), verdict="unhealthy")
    incident = an_incident(sick)
    workflow = a_workflow(sick, incident)
    assert [item["id"] for item in viewer.get("/api/v1/workflows", {"state": "running"}).json()["items"]] == [
        workflow.pk
    ]
    assert viewer.get("/api/v1/workflows", {"state": "failed"}).json()["count"] == 0
    assert viewer.get("/api/v1/incidents", {"node": sick.name}).json()["items"][0]["id"] == incident.pk
