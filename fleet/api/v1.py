"""The REST API, first cut: reading nodes, workflows and incidents.

Decides shapes, filters and paging of the answers. Refuses writes for now, and unbounded lists.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import RawPostDataException
from ninja import NinjaAPI, Query, Schema
from ninja.errors import HttpError

from fleet.api.callers import ByToken, Caller, by_session
from fleet.api.paging import Paging
from fleet.health.models import Incident
from fleet.lifecycle.models import Workflow
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import explain, reasons
from fleet.readmodels.fleet_map import Filters, NodeRow, rows
from fleet.readmodels.totals import totals

api = NinjaAPI(
    title="Muster",
    version=settings.VERSION,
    urls_namespace="api",
    docs_url=None,
    auth=[by_session, ByToken()],
    description="Keeps a GPU fleet whole: nodes, why they are as they are, workflows and incidents.",
)


@api.exception_handler(RawPostDataException)
def not_json(request: HttpRequest, error: Exception) -> HttpResponse:
    """A form was sent: whoever looked for its token has read the body, and no body of ours is a form."""
    return api.create_response(
        request, {"detail": "The body must be JSON (Content-Type: application/json)."}, status=415
    )


class NodeOut(Schema):
    name: str
    cluster: str
    pool: str
    rack: str
    leaf: str
    verdict: str
    state: str
    held: bool
    why: str
    since: datetime | None
    gpus: int
    workflow: int | None
    blocked: str


class NodePage(Schema):
    count: int
    items: list[NodeOut]


class WorkflowOut(Schema):
    id: int
    cluster: str
    node: str
    incident: int | None
    playbook: str
    state: str
    verb: str
    step: int
    steps: int
    attempt: int
    blocked_code: str
    blocked_text: str
    blocked_until: datetime | None
    created_at: datetime
    ended_at: datetime | None
    outcome: str


class WorkflowPage(Schema):
    count: int
    items: list[WorkflowOut]


class LineOut(Schema):
    place: int
    of: int


class WhyOut(Schema):
    reason: str
    text: str
    since: datetime
    until: datetime | None
    waits_for: str
    clears: str
    do: str
    needs_person: bool
    line: LineOut | None


class WaitingOut(Schema):
    reason: str
    name: str
    workflows: int
    clears: str
    do: str


class IncidentOut(Schema):
    id: int
    cluster: str
    node: str | None
    device: str
    cause: str
    rule: str
    severity: str
    title: str
    state: str
    first_bad_at: datetime
    detected_at: datetime
    resolved_at: datetime | None
    resolution: str


class IncidentPage(Schema):
    count: int
    items: list[IncidentOut]


class NodeQuery(Paging):
    cluster: str = ""
    verdict: str = ""
    state: str = ""
    pool: str = ""
    rack: str = ""
    leaf: str = ""
    q: str = ""


class StateQuery(Paging):
    cluster: str = ""
    node: str = ""
    state: str = ""


class IncidentQuery(Paging):
    cluster: str = ""
    node: str = ""
    state: Literal["", "open", "resolved"] = ""


def _caller(request: HttpRequest) -> Caller:
    return request.auth  # type: ignore[attr-defined]


def _node_out(row: NodeRow) -> NodeOut:
    return NodeOut(
        name=row.name,
        cluster=row.cluster,
        pool=row.pool,
        rack=row.rack,
        leaf=row.leaf,
        verdict=row.verdict,
        state=row.state,
        held=row.held,
        why=row.why,
        since=row.since,
        gpus=row.gpus,
        workflow=row.workflow,
        blocked=row.blocked_text,
    )


@api.get("/nodes", response=NodePage, summary="Nodes with verdict and state")
def nodes(request: HttpRequest, query: Query[NodeQuery]) -> NodePage:
    filters = Filters(**{name: getattr(query, name) for name in Filters.NAMES})
    chosen = [row for row in rows(_caller(request).visible, query.cluster) if filters.take(row)]
    return NodePage(count=len(chosen), items=[_node_out(row) for row in chosen[query.cut()]])


@api.get("/nodes/{name}", response=NodeOut, summary="One node")
def node(request: HttpRequest, name: str, cluster: str = "") -> NodeOut:
    return _node_out(_one(request, name, cluster))


@api.get("/nodes/{name}/why", response=dict[str, Any], summary="Why a node is held, or why nothing happens")
def why_node(request: HttpRequest, name: str, cluster: str = "") -> dict[str, Any]:
    from fleet.readmodels.why import why

    row = _one(request, name, cluster)
    return why(row.cluster, row.name, SYSTEM_CLOCK.now())


def _one(request: HttpRequest, name: str, cluster: str) -> NodeRow:
    found = rows(_caller(request).visible, cluster, name)
    if not found:
        raise HttpError(404, f"No node {name} is in view.")
    if len(found) > 1:
        clusters = ", ".join(row.cluster for row in found)
        raise HttpError(409, f"The clusters {clusters} have a node {name}: add ?cluster=.")
    return found[0]


def _scoped(request: HttpRequest, cluster: str, node: str) -> dict[str, Any]:
    wanted: dict[str, Any] = {"cluster__removed_at": None}
    visible = _caller(request).visible
    if visible is not None:
        wanted["cluster__name__in"] = visible
    if cluster:
        wanted["cluster__name"] = cluster
    if node:
        wanted["node__name"] = node
    return wanted


@api.get("/workflows", response=WorkflowPage, summary="Workflows, newest first")
def workflows(request: HttpRequest, query: Query[StateQuery]) -> WorkflowPage:
    found = Workflow.objects.filter(**_scoped(request, query.cluster, query.node)).order_by("-pk")
    if query.state:
        found = found.filter(state=query.state)
    items = [
        WorkflowOut(
            id=row.pk,
            cluster=row.cluster.name,
            node=row.node.name,
            incident=row.incident_id,
            playbook=row.playbook,
            state=row.state,
            verb=row.verb,
            step=row.step,
            steps=len(row.plan),
            attempt=row.attempt,
            blocked_code=row.blocked_code,
            blocked_text=row.blocked_text,
            blocked_until=row.blocked_until,
            created_at=row.created_at,
            ended_at=row.ended_at,
            outcome=row.outcome,
        )
        for row in found.select_related("cluster", "node")[query.cut()]
    ]
    return WorkflowPage(count=found.count(), items=items)


@api.get("/workflows/{pk}/why", response=WhyOut | None, summary="Why a workflow does not move; null while it does")
def why_workflow(request: HttpRequest, pk: int) -> dict[str, Any] | None:
    found = Workflow.objects.select_related("cluster", "node", "incident").filter(**_scoped(request, "", ""), pk=pk)
    row = found.first()
    if row is None:
        raise HttpError(404, f"No workflow {pk} is in view.")
    waits = explain.in_full(row, SYSTEM_CLOCK.now())
    return waits.as_json() if waits else None


@api.get("/why", response=list[WaitingOut], summary="What the workflows of the fleet wait for, the most first")
def why_fleet(request: HttpRequest, cluster: str = "") -> list[WaitingOut]:
    found = totals(_caller(request).visible)
    waiting = explain.groups((found.within(cluster) if cluster else found).waits)
    return [
        WaitingOut(
            reason=group.code,
            name=group.name,
            workflows=group.n,
            clears=str(reasons.of(group.code).clears),
            do=str(reasons.of(group.code).do),
        )
        for group in waiting
    ]


@api.get("/incidents", response=IncidentPage, summary="Incidents, newest first")
def incidents(request: HttpRequest, query: Query[IncidentQuery]) -> IncidentPage:
    found = Incident.objects.filter(**_scoped(request, query.cluster, query.node)).order_by("-pk")
    if query.state:
        found = found.filter(state=query.state)
    items = [
        IncidentOut(
            id=row.pk,
            cluster=row.cluster.name,
            node=row.node.name if row.node else None,
            device=row.device,
            cause=row.cause,
            rule=row.rule,
            severity=row.severity,
            title=row.title,
            state=row.state,
            first_bad_at=row.first_bad_at,
            detected_at=row.detected_at,
            resolved_at=row.resolved_at,
            resolution=row.resolution,
        )
        for row in found.select_related("cluster", "node")[query.cut()]
    ]
    return IncidentPage(count=found.count(), items=items)
