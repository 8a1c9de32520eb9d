"""The REST API: nodes, and why each is held or why nothing happens to it.

Decides shapes, filters and paging of the answers. Refuses unbounded lists.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.request import RawPostDataException
from ninja import NinjaAPI, Query, Schema
from ninja.errors import HttpError

from fleet.api.callers import ByToken, Caller, by_session
from fleet.api.paging import Paging
from fleet.api.waiting import WhyOut
from fleet.health.models import Verdict
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels.fleet_map import Filters, NodeRow, rows

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
    """`held`: it takes no new work; `foreign_hold`: for another owner, too. `blocked`: what its workflow waits for."""

    name: str
    cluster: str
    pool: str
    rack: str
    leaf: str
    verdict: Verdict
    state: NodeState
    held: bool
    foreign_hold: bool
    why: str
    since: datetime | None
    gpus: int
    workflow: int | None
    workflow_state: WorkflowState | None
    blocked: str
    blocked_until: datetime | None


class NodePage(Schema):
    count: int
    items: list[NodeOut]


class WhyIncidentOut(Schema):
    id: int
    cause: str
    title: str
    detected_at: datetime
    first_bad_at: datetime


class WhyWorkflowOut(Schema):
    id: int
    state: WorkflowState
    attempt: int


class WhyStepOut(Schema):
    """`index` counts from 0."""

    verb: str
    index: int
    of: int
    text: str


class OwnerOut(Schema):
    """Another owner of the node: what it does, since when (ISO 8601, or ""), by which mark, what Muster does."""

    name: str
    doing: str
    stance: str
    mark: str
    since: str
    text: str
    muster: str


class WhyNodeOut(Schema):
    """The same as `manage.py why NODE --json`. `would`: verbs that mode observe keeps from being done."""

    node: str
    cluster: str
    state: NodeState
    verdict: Verdict
    reason: str
    since: datetime | None
    incident: WhyIncidentOut | None
    workflow: WhyWorkflowOut | None
    step: WhyStepOut | None
    blocked: WhyOut | None
    would: list[str]
    owners: list[OwnerOut]
    text: str


class NodeQuery(Paging):
    cluster: str = ""
    verdict: str = ""
    state: str = ""
    pool: str = ""
    rack: str = ""
    leaf: str = ""
    q: str = ""


def _caller(request: HttpRequest) -> Caller:
    return request.auth  # type: ignore[attr-defined]


def _node_out(row: NodeRow) -> NodeOut:
    return NodeOut(
        name=row.name,
        cluster=row.cluster,
        pool=row.pool,
        rack=row.rack,
        leaf=row.leaf,
        verdict=Verdict(row.verdict),
        state=NodeState(row.state),
        held=row.held,
        foreign_hold=row.foreign_hold,
        why=row.why,
        since=row.since,
        gpus=row.gpus,
        workflow=row.workflow,
        workflow_state=WorkflowState(row.workflow_state) if row.workflow_state else None,
        blocked=row.blocked_text,
        blocked_until=row.blocked_until,
    )


@api.get("/nodes", response=NodePage, summary="Nodes with verdict and state")
def nodes(request: HttpRequest, query: Query[NodeQuery]) -> NodePage:
    filters = Filters(**{name: getattr(query, name) for name in Filters.NAMES})
    chosen = [row for row in rows(_caller(request).visible, query.cluster) if filters.take(row)]
    return NodePage(count=len(chosen), items=[_node_out(row) for row in chosen[query.cut()]])


@api.get("/nodes/{name}", response=NodeOut, summary="One node")
def node(request: HttpRequest, name: str, cluster: str = "") -> NodeOut:
    return _node_out(_one(request, name, cluster))


@api.get("/nodes/{name}/why", response=WhyNodeOut, summary="Why a node is held, or why nothing happens")
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
