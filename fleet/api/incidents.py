"""The REST API of incidents and of the tickets that people work on.

Decides shapes, filters and paging. Refuses to judge: why an incident has no workflow is asked where pages ask.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.http import HttpRequest
from ninja import Query, Router, Schema
from ninja.errors import HttpError

from fleet.api.callers import rows_in_view
from fleet.api.paging import LARGEST, Paging
from fleet.api.waiting import WhyOut
from fleet.health.models import Incident
from fleet.inventory.models import Mode
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import Workflow
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import explain
from fleet.tickets.models import Ticket

router = Router(tags=["incidents"])
ROWS = ("cluster", "node__pool", "node__cluster", "node__lifecycle")


class IncidentOut(Schema):
    """`node` null: many share it; then `scope` and `place` say where it lies. `mode`: how far Muster may go for it
    (of its rule, in the node's pool). `part_of`: the shared incident that it turned out to belong to."""

    id: int
    cluster: str
    node: str | None
    scope: str
    place: str
    part_of: int | None
    device: str
    cause: str
    rule: str
    severity: Literal["degraded", "unhealthy"]
    action_class: str
    mode: Mode
    title: str
    state: Literal["open", "resolved"]
    first_bad_at: datetime
    detected_at: datetime
    resolved_at: datetime | None
    resolution: str
    acked_at: datetime | None
    acked_by: str
    muted_until: datetime | None
    muted_by: str
    muted_reason: str


class IncidentPage(Schema):
    count: int
    items: list[IncidentOut]


class IncidentDetailOut(IncidentOut):
    """`blocked`: why it has no workflow, null where it has one or needs none."""

    workflows: list[int]
    tickets: list[int]
    blocked: WhyOut | None


class IncidentQuery(Paging):
    cluster: str = ""
    node: str = ""
    state: Literal["", "open", "resolved"] = ""


class TicketOut(Schema):
    id: int
    cluster: str
    node: str
    incident: int | None
    workflow: int | None
    state: Literal["open", "closed"]
    part: str
    serial: str
    title: str
    reason: str
    opened_at: datetime
    closed_at: datetime | None
    closed_by: str
    resolution: str


class TicketPage(Schema):
    count: int
    items: list[TicketOut]


class TicketQuery(Paging):
    cluster: str = ""
    node: str = ""
    state: Literal["", "open", "closed"] = ""


@router.get("/incidents", response=IncidentPage, summary="Incidents, newest first")
def incidents(request: HttpRequest, query: Query[IncidentQuery]) -> dict[str, Any]:
    found = Incident.objects.filter(**rows_in_view(request, query.cluster, query.node)).order_by("-pk")
    if query.state:
        found = found.filter(state=query.state)
    return {"count": found.count(), "items": [_out(row) for row in found.select_related(*ROWS)[query.cut()]]}


def _out(row: Incident) -> dict[str, Any]:
    return {
        "id": row.pk, "cluster": row.cluster.name, "node": row.node.name if row.node else None, "scope": row.scope,
        "place": row.place, "part_of": row.part_of_id, "device": row.device, "cause": row.cause, "rule": row.rule,
        "severity": row.severity, "action_class": row.action_class, "mode": row.mode, "title": row.title,
        "state": row.state, "first_bad_at": row.first_bad_at, "detected_at": row.detected_at,
        "resolved_at": row.resolved_at, "resolution": row.resolution, "acked_at": row.acked_at,
        "acked_by": row.acked_by, "muted_until": row.muted_until, "muted_by": row.muted_by,
        "muted_reason": row.muted_reason,
    }  # fmt: skip


@router.get("/incidents/{pk}", response=IncidentDetailOut, summary="One incident, with why nothing is done for it")
def incident(request: HttpRequest, pk: int) -> dict[str, Any]:
    row = Incident.objects.filter(**rows_in_view(request), pk=min(pk, LARGEST)).select_related(*ROWS).first()
    if row is None:
        raise HttpError(404, f"No incident {pk} is in view.")
    flows = Workflow.objects.filter(incident=row).order_by("-pk")
    busy = any(state in OPEN_WORKFLOW_STATES for state in flows.values_list("state", flat=True))
    waits = explain.of_incident(row, row.node, SYSTEM_CLOCK.now()) if row.node and not busy else None
    return {
        **_out(row),
        "workflows": list(flows.values_list("pk", flat=True)[:50]),
        "tickets": list(Ticket.objects.filter(incident=row).order_by("-pk").values_list("pk", flat=True)[:50]),
        "blocked": waits.as_json() if waits else None,
    }


@router.get("/tickets", response=TicketPage, summary="Tickets: what people must repair, newest first")
def tickets(request: HttpRequest, query: Query[TicketQuery]) -> dict[str, Any]:
    found = Ticket.objects.filter(**rows_in_view(request, query.cluster, query.node)).order_by("-pk")
    if query.state:
        found = found.filter(state=query.state)
    items = [
        {
            "id": row.pk, "cluster": row.cluster.name, "node": row.node.name, "incident": row.incident_id,
            "workflow": row.workflow_id, "state": row.state, "part": row.part, "serial": row.serial,
            "title": row.title, "reason": row.reason, "opened_at": row.opened_at, "closed_at": row.closed_at,
            "closed_by": row.closed_by, "resolution": row.resolution,
        }
        for row in found.select_related("cluster", "node")[query.cut()]
    ]  # fmt: skip
    return {"count": found.count(), "items": items}
