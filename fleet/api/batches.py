"""The REST API of bulk actions and planned maintenance.

Decides the shapes of a selection, a pace, a window and what became of each node. Refuses to start anything but the list
whose hash is sent along.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, time, timedelta
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, Field

from fleet.access.selectors import roles_in
from fleet.api.callers import caller_of
from fleet.api.paging import LARGEST
from fleet.api.people import Action, Name, Reason, Text, operator_in, person_of, plain
from fleet.lifecycle import bulk
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Batch
from fleet.policy.windows import OPENING, Window
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import batch_page
from fleet.readmodels.fleet_map import Filters
from fleet.readmodels.lists import Filter
from fleet.readmodels.selection import Selection, SelectionRefused, resolve

router = Router(tags=["batches"])
BatchState = Literal["draft", "waiting", "running", "paused", "done", "cancelled"]


class WindowIn(Schema):
    """Wall time of `zone`; `days` are weekdays from 1 (Monday); the last day is part of it."""

    zone: Name
    start: time
    minutes: int
    days: Annotated[list[int], Field(min_length=1, max_length=7)]
    first_day: date | None = None
    last_day: date | None = None


class BatchIn(Schema):
    """All parts of the selection that are given must fit. With a `window` it is a planned maintenance. Either an
    `action`, or a `playbook` by its name (`NAME`, or `NAME@VERSION` for exactly that version)."""

    action: Action | None = None
    playbook: Annotated[str, Field(max_length=80), AfterValidator(plain)] = ""
    reason: Reason
    cluster: Name = ""
    pool: Name = ""
    rack: Name = ""
    leaf: Name = ""
    verdict: Name = ""
    state: Name = ""
    q: Name = ""
    labels: Text = ""
    names: Annotated[list[Name], Field(max_length=10_000)] = []
    at_once: int | None = None
    stop_after: int | None = None
    spare_jobs: bool = False
    window: WindowIn | None = None


class WindowOut(Schema):
    """Wall time of `zone`; `days` are weekdays from 1 (Monday); it lies between `begins` and `ends`."""

    zone: str
    start: time
    minutes: int
    days: list[int]
    begins: datetime | None
    ends: datetime | None


class StartIn(Schema):
    plan_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class ReasonIn(Schema):
    reason: Reason


class MemberOut(Schema):
    node: str
    state: str
    code: str
    text: str
    workflow: int | None


class BatchOut(Schema):
    """`playbook` is its `NAME@VERSION`, or "" of an action. `counts` are of nodes by state: now, waits and refused
    before the start; pending, begun, done, ... after it."""

    id: int
    label: str
    cluster: str
    action: str
    playbook: str
    reason: str
    state: BatchState
    text: str
    until: datetime | None
    at_once: int | None
    stop_after: int | None
    spare_jobs: bool
    window: WindowOut | None
    plan_hash: str
    requested_by: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    counts: dict[str, int]
    nodes: list[MemberOut]
    approval: int | None


@router.post("/batches", response=BatchOut, summary="Resolve a selection to an exact list; nothing begins")
def preview(request: HttpRequest, body: BatchIn) -> dict[str, Any]:
    person_of(request)
    filters = Filters(**{name: getattr(body, name).strip() for name in Filters.NAMES})
    wanted = Selection(filters, body.labels, tuple(dict.fromkeys(body.names)))
    try:
        cluster, ids = resolve(wanted, caller_of(request).visible)
        person = operator_in(request, cluster.name)
        pace = Pace(body.at_once, body.stop_after, _window(body.window) if body.window else None)
        batch = bulk.draft(
            bulk.Wanted(
                cluster,
                ids,
                body.action or "",
                person.username,
                body.reason,
                roles_in(person, cluster.name),
                wanted.as_told(),
                pace,
                body.spare_jobs,
                body.playbook,
            ),
            SYSTEM_CLOCK.now(),
        )
    except (SelectionRefused, bulk.Refused) as error:
        raise HttpError(422, str(error)) from error
    return _batch(request, batch.pk)


def _window(given: WindowIn) -> Window:
    window = Window(OPENING, "", given.zone, frozenset(given.days), given.start.replace(tzinfo=None), given.minutes)
    problem = window.problem()
    if problem:
        raise bulk.Refused(problem)
    if any(day is not None and not 2000 <= day.year <= 9000 for day in (given.first_day, given.last_day)):
        raise bulk.Refused("A day between the years 2000 and 9000.")
    days = (given.first_day, given.last_day + timedelta(days=1) if given.last_day else None)
    begins, ends = (datetime.combine(day, time.min, ZoneInfo(given.zone)) if day else None for day in days)
    window = replace(window, begins=begins, ends=ends)
    if window.problem():
        raise bulk.Refused(window.problem())
    return window


class BatchLine(Schema):
    id: int
    label: str
    cluster: str
    title: str
    state: BatchState
    text: str
    until: datetime | None
    counts: dict[str, int]


@router.get("/batches", response=list[BatchLine], summary="Bulk actions, or planned maintenance; open ones first")
def batches(
    request: HttpRequest, maintenance: bool = False, state: BatchState | None = None, page: int = 1
) -> list[dict[str, Any]]:
    wanted = Filter(state=state or "", page=max(1, min(page, 10_000)))
    found = batch_page.batches(caller_of(request).visible, wanted, maintenance)
    progress = batch_page.progress(found.rows)
    return [
        {
            "id": row.pk,
            "label": row.label,
            "cluster": row.cluster.name,
            "state": row.state,
            "text": row.text,
            "until": row.until,
            "title": batch_page.title_of(row, sum(progress[row.pk].values())),
            "counts": dict(progress[row.pk]),
        }
        for row in found.rows
    ]


@router.get("/batches/{pk}", response=BatchOut, summary="A bulk action or a planned maintenance, with its nodes")
def batch(request: HttpRequest, pk: int) -> dict[str, Any]:
    return _batch(request, pk)


def _batch(request: HttpRequest, pk: int) -> dict[str, Any]:
    page = batch_page.read(min(pk, LARGEST), caller_of(request).visible, SYSTEM_CLOCK.now())
    if page is None:
        raise HttpError(404, f"No batch {pk} is in view.")
    row = page.batch
    nodes = [
        MemberOut(
            node=line.member.node.name,
            state=line.state,
            code=line.member.code,
            text=line.text,
            workflow=line.member.workflow_id,
        )
        for line in page.lines
    ]
    window = bulk.window_of(row)
    return {
        "at_once": row.at_once,
        "stop_after": row.stop_after,
        "spare_jobs": row.spare_jobs,
        "created_at": row.created_at,
        "started_at": row.started_at,
        "ended_at": row.ended_at,
        "window": _window_out(window) if window else None,
        "id": row.pk,
        "label": row.label,
        "cluster": row.cluster.name,
        "action": row.action,
        "playbook": page.playbook,
        "reason": row.reason,
        "state": row.state,
        "text": row.text,
        "until": row.until,
        "plan_hash": row.plan_hash,
        "requested_by": row.requested_by,
        "counts": dict(page.counts),
        "nodes": nodes,
        "approval": page.approval.pk if page.approval else None,
    }


def _window_out(window: Window) -> WindowOut:
    return WindowOut(
        zone=window.zone,
        start=window.start,
        minutes=window.minutes,
        days=sorted(window.days),
        begins=window.begins,
        ends=window.ends,
    )


@router.post(
    "/batches/{pk}/start", response=BatchOut, summary="Start exactly the list of that hash, or ask for approval"
)
def start(request: HttpRequest, pk: int, body: StartIn) -> dict[str, Any]:
    return _do(request, pk, lambda by, now: bulk.start(pk, body.plan_hash, by, now))


@router.post("/batches/{pk}/pause", response=BatchOut, summary="Begin no further node")
def pause(request: HttpRequest, pk: int, body: ReasonIn) -> dict[str, Any]:
    return _do(request, pk, lambda by, now: bulk.pause(pk, by, body.reason, now))


@router.post("/batches/{pk}/resume", response=BatchOut, summary="Go on")
def resume(request: HttpRequest, pk: int) -> dict[str, Any]:
    return _do(request, pk, lambda by, now: bulk.resume(pk, by, now))


@router.post("/batches/{pk}/cancel", response=BatchOut, summary="End it; what was not touched is left")
def cancel(request: HttpRequest, pk: int, body: ReasonIn) -> dict[str, Any]:
    return _do(request, pk, lambda by, now: bulk.cancel(pk, by, body.reason, now))


def _do(request: HttpRequest, pk: int, what: Any) -> dict[str, Any]:
    row = Batch.objects.select_related("cluster").filter(pk=min(pk, LARGEST)).first()
    visible = caller_of(request).visible
    if row is None or (visible is not None and row.cluster.name not in visible):
        raise HttpError(404, f"No batch {pk} is in view.")
    person = operator_in(request, row.cluster.name)
    try:
        what(person.username, SYSTEM_CLOCK.now())
    except bulk.Refused as error:
        raise HttpError(409, str(error)) from error
    return _batch(request, pk)
