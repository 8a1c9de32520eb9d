"""The REST API of workflows: what each does, why it does not move, what its guards say, and what came of it.

Decides shapes, filters and paging. Refuses to judge again: guards, reasons and effectiveness are asked where pages ask.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http import HttpRequest
from ninja import Query, Router, Schema
from ninja.errors import HttpError

from fleet.api.callers import caller_of, rows_in_view
from fleet.api.paging import LARGEST, Paging
from fleet.api.waiting import WhyOut
from fleet.inventory.models import Mode
from fleet.lifecycle.approving import hash_of
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import explain, guard_lines, workflow_page
from fleet.readmodels.workflow_page import WorkflowPage

router = Router(tags=["workflows"])


class WorkflowOut(Schema):
    """`step` counts from 0. `blocked_code` is a code of docs/why.md, "" while nothing keeps it."""

    id: int
    cluster: str
    node: str
    incident: int | None
    playbook: str
    state: WorkflowState
    verb: str
    step: int
    steps: int
    attempt: int
    attempts: int
    blocked_code: str
    blocked_text: str
    blocked_since: datetime | None
    blocked_until: datetime | None
    needs_approval: bool
    requested_by: str
    reason: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    outcome: str


class WorkflowPageOut(Schema):
    count: int
    items: list[WorkflowOut]


class StepOut(Schema):
    """One verb of the plan. `state`: todo, cur, done, failed, skipped or cancelled; `guard`: the cap it must ask."""

    verb: str
    state: str
    tries: int
    text: str
    guard: str


class GuardOut(Schema):
    """What one guard says to the next act: `numbers` of caps stand in `text`."""

    guard: str
    name: str
    allowed: bool
    text: str
    until: datetime | None


class DeadlineOut(Schema):
    at: datetime
    follows: str
    over: bool


class LastedOut(Schema):
    """What came of the remedy that returned the node. `again`: another fault took it out within a day of its return;
    `bounced`: the same one; `incident` names it."""

    result: str
    text: str
    incident: int | None
    at: datetime | None


class IntentOut(Schema):
    op_id: str
    verb: str
    target: str
    outcome: str
    text: str
    created_at: datetime
    resolved_at: datetime | None


class WorkflowDetailOut(WorkflowOut):
    """`plan_hash` is what people agree to. `rungs`: the ladder with what came of each. `record`: how often its verb
    mended such a fault."""

    mode: Mode
    node_state: NodeState | None
    plan_hash: str
    approval: int | None
    blocked: WhyOut | None
    plan: list[StepOut]
    guards: list[GuardOut]
    deadline: DeadlineOut | None
    rungs: list[str]
    record: str
    lasted: LastedOut | None
    halted: str
    ticket: int | None
    intents: list[IntentOut]


class WorkflowQuery(Paging):
    cluster: str = ""
    node: str = ""
    state: WorkflowState | None = None
    reason: str = ""


@router.get("/workflows", response=WorkflowPageOut, summary="Workflows, newest first")
def workflows(request: HttpRequest, query: Query[WorkflowQuery]) -> dict[str, Any]:
    found = Workflow.objects.filter(**rows_in_view(request, query.cluster, query.node)).order_by("-pk")
    if query.state:
        found = found.filter(state=query.state)
    if query.reason:
        found = found.filter(blocked_code=query.reason, state__in=("waiting", "blocked", "repair"))
    items = [_out(row) for row in found.select_related("cluster", "node")[query.cut()]]
    return {"count": found.count(), "items": items}


def _out(row: Workflow) -> dict[str, Any]:
    return {
        "id": row.pk, "cluster": row.cluster.name, "node": row.node.name, "incident": row.incident_id,
        "playbook": row.playbook, "state": row.state, "verb": row.verb, "step": row.step, "steps": len(row.plan),
        "attempt": row.attempt, "attempts": row.attempts, "blocked_code": row.blocked_code,
        "blocked_text": row.blocked_text, "blocked_since": row.blocked_since, "blocked_until": row.blocked_until,
        "needs_approval": row.needs_approval, "requested_by": row.created_by, "reason": row.reason,
        "created_at": row.created_at, "started_at": row.started_at, "ended_at": row.ended_at, "outcome": row.outcome,
    }  # fmt: skip


@router.get(
    "/workflows/{pk}", response=WorkflowDetailOut, summary="One workflow: its plan, its guards, what came of it"
)
def workflow(request: HttpRequest, pk: int) -> dict[str, Any]:
    now = SYSTEM_CLOCK.now()
    page = workflow_page.read(min(pk, LARGEST), caller_of(request).visible, now)
    if page is None:
        raise HttpError(404, f"No workflow {pk} is in view.")
    return _detail(page, now)


def _detail(page: WorkflowPage, now: datetime) -> dict[str, Any]:
    row = page.workflow
    guards = [] if page.ended or row.state == WorkflowState.PLANNED else guard_lines.read(row, now)
    intents = [
        {
            "op_id": str(one.op_id), "verb": one.verb, "target": one.target, "outcome": one.outcome, "text": one.text,
            "created_at": one.created_at, "resolved_at": one.resolved_at,
        }
        for one in page.intents
    ]  # fmt: skip
    return {
        **_out(row),
        "mode": page.mode,
        "node_state": page.state.state if page.state else None,
        "plan_hash": hash_of(row),
        "approval": page.request.pk if page.request else None,
        "blocked": page.wait.as_json() if page.wait else None,
        "plan": [
            {"verb": line.verb, "state": line.state, "tries": len(line.tries), "text": line.text, "guard": line.guard}
            for line in page.steps
        ],
        "guards": [
            {"guard": line.code, "name": str(line.name), "allowed": line.ok, "text": line.text, "until": line.until}
            for line in guards
        ],
        "deadline": page.deadline,
        "rungs": [f"{rung.verb}: {rung.note}" for rung in page.rungs],
        "record": page.record,
        "lasted": page.lasted,
        "halted": page.halt.text if page.halt else "",
        "ticket": page.ticket.pk if page.ticket else None,
        "intents": intents,
    }


@router.get("/workflows/{pk}/why", response=WhyOut | None, summary="Why a workflow does not move; null while it does")
def why_workflow(request: HttpRequest, pk: int) -> dict[str, Any] | None:
    rows = Workflow.objects.select_related("cluster", "node", "incident")
    row = rows.filter(**rows_in_view(request), pk=min(pk, LARGEST)).first()
    if row is None:
        raise HttpError(404, f"No workflow {pk} is in view.")
    waits = explain.in_full(row, SYSTEM_CLOCK.now())
    return waits.as_json() if waits else None
