"""What the pages say of holds, guards and repairs, the API says too; and its schema tells each shape."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import bulk
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Remedy
from fleet.policy import services as policy
from fleet.policy.models import Breaker, Claim
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.tickets import services as tickets
from tests.builders import a_node, a_workflow, an_incident
from tests.domain.dashboard_fleet.test_api import _token, _watched
from tests.unit.policy.test_windows import a_window

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


@pytest.fixture
def cluster() -> Cluster:
    return _watched()


@pytest.fixture
def sick(cluster: Cluster) -> Node:
    return a_node(cluster, NODE, verdict="unhealthy")


def read(client: Client, path: str, status: int = 200, **query: str) -> Any:
    answer = client.get(f"/api/v1{path}", query)
    assert answer.status_code == status, answer.content[:300]
    return answer.json()


# -- the schema -------------------------------------------------------------------------------------------------------


@pytest.fixture
def schema(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/v1/openapi.json").json()
    return found


def operations(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, verbs in schema["paths"].items():
        for verb, operation in verbs.items():
            yield f"{verb} {path}", operation


def test_every_answer_has_a_shape_and_every_call_a_summary(schema: dict[str, Any]) -> None:
    loose = []
    for name, operation in operations(schema):
        assert operation.get("summary"), name
        body = operation["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
        if "$ref" not in str(body):
            loose.append(name)
    assert loose == [], "an answer that may hold anything"


OPEN = {"ApprovalOut.summary"}
"""Facts as whoever asked told them."""


def test_no_field_of_an_answer_may_hold_anything(schema: dict[str, Any]) -> None:
    loose = {
        f"{name}.{field}"
        for name, shape in schema["components"]["schemas"].items()
        if name.endswith("Out")
        for field, told in shape.get("properties", {}).items()
        if told.get("type") == "object" and told.get("additionalProperties") in (None, True)
    }
    assert loose <= OPEN


def values_of(schema: dict[str, Any], name: str, field: str) -> set[str]:
    told = schema["components"]["schemas"][name]["properties"][field]
    parts = [told, *told.get("anyOf", []), *told.get("allOf", [])]
    named = [schema["components"]["schemas"][part["$ref"].split("/")[-1]] for part in parts if "$ref" in part]
    return {value for part in (*parts, *named) for value in part.get("enum", [])}


@pytest.mark.parametrize(
    ("name", "field", "values"),
    [
        ("NodeOut", "state", set(NodeState)),
        ("NodeOut", "verdict", {"healthy", "degraded", "unhealthy", "unknown", "lost"}),
        ("WorkflowOut", "state", set(WorkflowState)),
        ("IncidentOut", "mode", {"observe", "recommend", "automate"}),
        ("IncidentOut", "state", {"open", "resolved"}),
        ("ClusterOut", "mode", {"observe", "recommend", "automate"}),
        ("BreakerOut", "state", {"closed", "open", "cooling"}),
        ("BatchOut", "state", {"draft", "waiting", "running", "paused", "done", "cancelled"}),
        ("ApprovalOut", "state", {"pending", "approved", "rejected", "expired", "withdrawn"}),
    ],
)
def test_closed_lists_are_enumerated(schema: dict[str, Any], name: str, field: str, values: set[str]) -> None:
    assert values_of(schema, name, field) == {str(value) for value in values}


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("NodeOut", "since"), ("NodeOut", "blocked_until"), ("NodeOut", "workflow"), ("WorkflowOut", "blocked_until"),
        ("WorkflowOut", "incident"), ("IncidentOut", "node"), ("IncidentOut", "resolved_at"), ("WhyOut", "until"),
        ("WhyNodeOut", "blocked"), ("WindowOut", "ends"), ("BatchOut", "until"),
    ],
)  # fmt: skip
def test_what_may_be_missing_is_nullable(schema: dict[str, Any], name: str, field: str) -> None:
    told = schema["components"]["schemas"][name]["properties"][field]
    assert {"type": "null"} in told.get("anyOf", [])


# -- what is said -----------------------------------------------------------------------------------------------------


def test_why_a_node_is_held_says_until_when_and_who_else_holds_it(viewer: Client, sick: Node) -> None:
    until = SYSTEM_CLOCK.now() + timedelta(minutes=5)
    Node.objects.filter(pk=sick.pk).update(foreign_hold=True, unschedulable=True)
    fields = {"blocked_code": "cap_take_out", "blocked_text": "Rack r01: 2 of 2 out of service (a, b)."}
    a_workflow(sick, an_incident(sick), state=WorkflowState.BLOCKED, blocked_until=until, **fields)
    [node] = read(viewer, "/nodes")["items"]
    assert (node["foreign_hold"], node["workflow_state"], node["blocked_until"] is not None) == (True, "blocked", True)
    why = read(viewer, f"/nodes/{NODE}/why")
    assert why["blocked"]["reason"] == "cap_take_out" and why["blocked"]["until"] and why["workflow"]["state"]


def test_one_workflow_tells_its_plan_guards_effect_and_hash(viewer: Client, sick: Node) -> None:
    workflow = a_workflow(
        sick, an_incident(sick), state=WorkflowState.BLOCKED, blocked_code="asking", blocked_text="x", step=1
    )
    told = read(viewer, f"/workflows/{workflow.pk}")
    assert len(told["plan_hash"]) == 64 and told["mode"] == "automate" and told["node_state"] == "in_service"
    assert [step["verb"] for step in told["plan"]] == [item["verb"] for item in workflow.plan]
    assert {"mode", "switch", "breaker", "caps"} <= {guard["guard"] for guard in told["guards"]}
    policy.stop_all(stopped=True, by="ann", reason="smoke", now=SYSTEM_CLOCK.now())
    stopped = next(line for line in read(viewer, f"/workflows/{workflow.pk}")["guards"] if line["guard"] == "switch")
    assert not stopped["allowed"] and "ann" in stopped["text"] and stopped["until"]
    read(viewer, "/workflows/999999999999999999999", 404)


def test_a_bounce_and_the_effectiveness_are_told(viewer: Client, sick: Node) -> None:
    incident, now = an_incident(sick), SYSTEM_CLOCK.now()
    workflow = a_workflow(sick, incident, state=WorkflowState.SUCCEEDED, ended_at=now)
    Remedy.objects.create(
        workflow=workflow, attempt=1, node_id=sick.pk, cluster_id=sick.cluster_id, verb="reboot", cause="xid-79",
        sku="H100", driver="550", firmware="VBIOS 96", result=Remedy.AGAIN, ended_at=now, back_incident=incident.pk,
        back_at=now + timedelta(hours=3),
    )  # fmt: skip
    lasted = read(viewer, f"/workflows/{workflow.pk}")["lasted"]
    assert (lasted["result"], lasted["incident"]) == ("again", incident.pk) and "another fault" in lasted["text"]
    [line] = read(viewer, "/effectiveness")
    assert (line["verb"], line["firmware"], line["tries"], line["held"], line["again"]) == (
        "reboot", "VBIOS 96", 1, 0, 1,
    )  # fmt: skip


def test_an_incident_tells_its_mode_and_why_nothing_is_done_for_it(viewer: Client, sick: Node) -> None:
    now = SYSTEM_CLOCK.now()
    incident = an_incident(sick, mode="observe", muted_until=now + timedelta(hours=1), muted_by="ann", muted_reason="x")
    told = read(viewer, f"/incidents/{incident.pk}")
    assert (told["mode"], told["scope"], told["muted_by"]) == ("observe", "node", "ann")
    assert told["blocked"]["reason"] == "muted" and told["blocked"]["until"] and told["workflows"] == []
    workflow = a_workflow(sick, incident)
    told = read(viewer, f"/incidents/{incident.pk}")
    assert told["blocked"] is None and told["workflows"] == [workflow.pk]
    tickets.open_ticket(
        node=sick, incident=incident, workflow_id=workflow.pk, title="GPU 3", reason="x", part="GPU 3", evidence={},
        now=now,
    )  # fmt: skip
    [ticket] = read(viewer, "/tickets", state="open")["items"]
    assert read(viewer, f"/incidents/{incident.pk}")["tickets"] == [ticket["id"]] and ticket["part"] == "GPU 3"


def test_the_policy_tells_levels_breakers_and_the_switch(viewer: Client, sick: Node) -> None:
    now, workflow = SYSTEM_CLOCK.now(), a_workflow(sick, an_incident(sick))
    Claim.objects.create(
        cluster_id=sick.cluster_id, kind="in_flight", node_id=sick.pk, workflow_id=workflow.pk, claimed_at=now
    )
    Breaker.objects.create(cluster_id=sick.cluster_id, state="open", since=now, text="too many")
    policy.stop_all(stopped=True, by="ann", reason="smoke", now=now)
    told = read(viewer, "/policy")
    assert told["switch"] == {**told["switch"], "stopped": True, "by": "ann", "reason": "smoke"}
    assert [(line["cluster"], line["state"], line["text"]) for line in told["breakers"]] == [
        ("demo", "open", "too many")
    ]
    rack = next(line for line in told["limits"] if (line["kind"], line["scope"]) == ("in_flight", "rack"))
    assert rack["fullest"][0]["nodes"] == [NODE] and rack["fullest"][0]["used"] == 1
    assert "in_flight" in told["document"]


def test_playbooks_tell_their_version_and_clusters_their_mode(viewer: Client, cluster: Cluster) -> None:
    books = read(viewer, "/playbooks")["playbooks"]
    reboot = next(one for one in books if one["name"] == "reboot")
    assert len(reboot["version"]) == 8 and "reboot > power_cycle > reprovision" in reboot["steps"]
    [told] = read(viewer, "/clusters")
    assert (told["name"], told["mode"], told["half_open"]) == ("demo", "automate", False)


def test_a_maintenance_tells_its_window_and_pace(viewer: Client, sick: Node) -> None:
    night = a_window()
    wanted = bulk.Wanted(sick.cluster, [sick.pk], "", "ann", "x", {"admin"}, pace=Pace(2, 3, night), playbook="reboot")
    batch = bulk.draft(wanted, SYSTEM_CLOCK.now())
    told = read(viewer, f"/batches/{batch.pk}")
    assert (told["at_once"], told["stop_after"], told["window"]["zone"]) == (2, 3, night.zone)
    type(batch).objects.filter(pk=batch.pk).update(state="paused")
    [line] = read(viewer, "/batches", maintenance="true", state="paused")
    assert line["id"] == batch.pk and line["title"] == "Playbook reboot on 1 node"
    assert read(viewer, "/batches") == []


@pytest.mark.parametrize("path", ["/workflows/{w}", "/incidents/{i}", "/workflows/{w}/why"])
def test_nothing_of_another_cluster_is_seen(client: Client, sick: Node, path: str) -> None:
    incident = an_incident(sick)
    workflow = a_workflow(sick, incident)
    _watched("busan-1")
    headers = _token(cluster="busan-1")
    assert client.get(f"/api/v1{path.format(w=workflow.pk, i=incident.pk)}", headers=headers).status_code == 404
    for listed in ("/tickets", "/effectiveness", "/clusters", "/policy"):
        assert "demo" not in client.get(f"/api/v1{listed}", headers=headers).content.decode()
