"""The REST API of what people ask for, agree to and plan.

Decides the shapes of manual actions, bulk actions, planned maintenance and votes. Rights are asked in the cluster that
is meant; a token of scope `act` may what its person may. Refuses a token that only reads, text with a NUL, and to start
anything but the list whose hash is sent along.
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

from fleet.access.models import User
from fleet.access.rights import OPERATE
from fleet.access.selectors import may, roles_in, visible_clusters
from fleet.api.callers import Caller
from fleet.lifecycle import ballots, bulk, manual
from fleet.lifecycle.maintenance_pace import Pace
from fleet.lifecycle.models import Batch
from fleet.policy import asking
from fleet.policy.windows import OPENING, Window
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import approvals_page, batch_page, node_page
from fleet.readmodels.fleet_map import Filters
from fleet.readmodels.selection import Selection, SelectionRefused, resolve

router = Router(tags=["acts"])
LARGEST = 2**63 - 1


def _plain(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL")
    return text


Text = Annotated[str, Field(max_length=1000), AfterValidator(_plain)]
Name = Annotated[str, Field(max_length=253), AfterValidator(_plain)]
Reason = Annotated[str, Field(min_length=1, max_length=300), AfterValidator(_plain)]
Action = Literal["hold", "release", "drain", "validate", "reset_gpu", "reboot", "power_cycle", "reprovision"]


class ActIn(Schema):
    action: Action
    reason: Reason


class ActOut(Schema):
    workflow: int
    state: str
    waits_for_approval: bool


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
    playbook: Annotated[str, Field(max_length=80), AfterValidator(_plain)] = ""
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
    state: str
    text: str
    until: datetime | None
    plan_hash: str
    requested_by: str
    counts: dict[str, int]
    nodes: list[MemberOut]
    approval: int | None


class VoteOut(Schema):
    by: str
    yes: bool
    reason: str
    at: datetime


class ApprovalOut(Schema):
    """`refusal` says why the caller may not vote; "" if it may."""

    id: int
    subject: str
    kind: str
    cluster: str
    title: str
    state: str
    requested_by: str
    reason: str
    summary: dict[str, Any]
    plan_hash: str
    needed: int
    votes: list[VoteOut]
    expires_at: datetime
    refusal: str


class VoteIn(Schema):
    plan_hash: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    reason: Annotated[str, Field(max_length=300), AfterValidator(_plain)] = ""


class Decided(Schema):
    decided: bool
    text: str


def _caller(request: HttpRequest) -> Caller:
    return request.auth  # type: ignore[attr-defined]


def _person(request: HttpRequest) -> User:
    caller = _caller(request)
    if caller.user is None:
        raise HttpError(403, "This token only reads: acting takes a person's session, or a token of scope act.")
    return caller.user


def _may(request: HttpRequest, right: str, cluster: str) -> bool:
    """Has the caller that right there? Cluster "" is the whole site."""
    caller = _caller(request)
    if caller.user is None or (caller.visible is not None and cluster not in caller.visible):
        return False
    return may(caller.user, right, cluster) if cluster else visible_clusters(caller.user, right) is None


def _operator(request: HttpRequest, cluster: str) -> User:
    person = _person(request)
    if not _may(request, OPERATE, cluster):
        raise HttpError(403, f"Needs the role operator in cluster {cluster}.")
    return person


@router.post("/nodes/{name}/acts", response=ActOut, summary="Ask for an action on one node")
def act(request: HttpRequest, name: str, body: ActIn, cluster: str = "") -> ActOut:
    found = node_page.find(_plain_or_404(name), _caller(request).visible, _plain_or_404(cluster))
    if not found:
        raise HttpError(404, f"No node {name} is in view.")
    if len(found) > 1:
        raise HttpError(409, f"Several clusters have a node {name}: add ?cluster=.")
    node = found[0]
    person = _operator(request, node.cluster.name)
    try:
        made, refused = manual.request([node.pk], body.action, person.username, body.reason, SYSTEM_CLOCK.now())
    except manual.ManualRefused as error:
        raise HttpError(422, str(error)) from error
    if not made:
        raise HttpError(409, " ".join(refused.values()))
    return ActOut(workflow=made[0].pk, state=made[0].state, waits_for_approval=made[0].state == "waiting")


def _plain_or_404(text: str) -> str:
    if "\0" in text:
        raise HttpError(404, "No such thing is in view.")
    return text


@router.post("/batches", response=BatchOut, summary="Resolve a selection to an exact list; nothing begins")
def preview(request: HttpRequest, body: BatchIn) -> BatchOut:
    _person(request)
    filters = Filters(**{name: getattr(body, name).strip() for name in Filters.NAMES})
    wanted = Selection(filters, body.labels, tuple(dict.fromkeys(body.names)))
    try:
        cluster, ids = resolve(wanted, _caller(request).visible)
        person = _operator(request, cluster.name)
        pace = Pace(body.at_once, body.stop_after, _window(body.window) if body.window else None)
        batch = bulk.draft(
            bulk.Wanted(
                cluster, ids, body.action or "", person.username, body.reason, roles_in(person, cluster.name),
                wanted.as_told(), pace, body.spare_jobs, body.playbook,
            ),
            SYSTEM_CLOCK.now(),
        )  # fmt: skip
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


@router.get("/batches/{pk}", response=BatchOut, summary="A bulk action or a planned maintenance, with its nodes")
def batch(request: HttpRequest, pk: int) -> BatchOut:
    return _batch(request, pk)


def _batch(request: HttpRequest, pk: int) -> BatchOut:
    page = batch_page.read(min(pk, LARGEST), _caller(request).visible, SYSTEM_CLOCK.now())
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
    return BatchOut(
        id=row.pk, label=row.label, cluster=row.cluster.name, action=row.action, playbook=page.playbook,
        reason=row.reason, state=row.state, text=row.text, until=row.until, plan_hash=row.plan_hash,
        requested_by=row.requested_by, counts=dict(page.counts), nodes=nodes,
        approval=page.approval.pk if page.approval else None,
    )  # fmt: skip


@router.post(
    "/batches/{pk}/start", response=BatchOut, summary="Start exactly the list of that hash, or ask for approval"
)
def start(request: HttpRequest, pk: int, body: StartIn) -> BatchOut:
    return _do(request, pk, lambda by, now: bulk.start(pk, body.plan_hash, by, now))


@router.post("/batches/{pk}/pause", response=BatchOut, summary="Begin no further node")
def pause(request: HttpRequest, pk: int, body: ReasonIn) -> BatchOut:
    return _do(request, pk, lambda by, now: bulk.pause(pk, by, body.reason, now))


@router.post("/batches/{pk}/resume", response=BatchOut, summary="Go on")
def resume(request: HttpRequest, pk: int) -> BatchOut:
    return _do(request, pk, lambda by, now: bulk.resume(pk, by, now))


@router.post("/batches/{pk}/cancel", response=BatchOut, summary="End it; what was not touched is left")
def cancel(request: HttpRequest, pk: int, body: ReasonIn) -> BatchOut:
    return _do(request, pk, lambda by, now: bulk.cancel(pk, by, body.reason, now))


def _do(request: HttpRequest, pk: int, what: Any) -> BatchOut:
    row = Batch.objects.select_related("cluster").filter(pk=min(pk, LARGEST)).first()
    visible = _caller(request).visible
    if row is None or (visible is not None and row.cluster.name not in visible):
        raise HttpError(404, f"No batch {pk} is in view.")
    person = _operator(request, row.cluster.name)
    try:
        what(person.username, SYSTEM_CLOCK.now())
    except bulk.Refused as error:
        raise HttpError(409, str(error)) from error
    return _batch(request, pk)


@router.get("/approvals", response=list[ApprovalOut], summary="What waits for approval, or was decided lately")
def approvals(request: HttpRequest, state: Literal["pending", "decided"] = "pending") -> list[ApprovalOut]:
    caller, now = _caller(request), SYSTEM_CLOCK.now()
    find = approvals_page.pending if state == "pending" else approvals_page.decided
    found = find(caller.visible, caller.name, lambda right, cluster: _may(request, right, cluster), now)
    return [_approval(one) for one in found]


def _approval(one: approvals_page.Request) -> ApprovalOut:
    row = one.row
    votes = [VoteOut(by=vote.by, yes=vote.yes, reason=vote.reason, at=vote.at) for vote in one.votes]
    return ApprovalOut(
        id=row.pk, subject=row.subject, kind=row.kind, cluster=one.cluster, title=one.title, state=row.state,
        requested_by=row.requested_by, reason=row.reason, summary=row.summary, plan_hash=row.plan_hash,
        needed=row.needed, votes=votes, expires_at=row.expires_at, refusal=one.refusal,
    )  # fmt: skip


@router.post("/approvals/{pk}/approve", response=Decided, summary="Agree to exactly the plan of that hash")
def approve(request: HttpRequest, pk: int, body: VoteIn) -> Decided:
    return _vote(request, pk, body, yes=True)


@router.post("/approvals/{pk}/reject", response=Decided, summary="Say no, with a reason")
def reject(request: HttpRequest, pk: int, body: VoteIn) -> Decided:
    return _vote(request, pk, body, yes=False)


def _vote(request: HttpRequest, pk: int, body: VoteIn, yes: bool) -> Decided:
    person, now = _person(request), SYSTEM_CLOCK.now()
    one = approvals_page.one(
        min(pk, LARGEST), _caller(request).visible, person.username, lambda r, c: _may(request, r, c), now
    )
    if one is None:
        raise HttpError(404, f"No request {pk} is in view.")
    if not _may(request, approvals_page.right_for(one.row), one.cluster):
        raise HttpError(403, one.refusal)
    if body.plan_hash != one.row.plan_hash:
        raise HttpError(409, "This is not the plan that is asked for: read it again.")
    try:
        decision = ballots.vote(one.row.pk, person.username, yes, body.reason, now)
    except asking.VoteRefused as error:
        raise HttpError(409, str(error)) from error
    return Decided(decided=decision.allowed or not yes, text=decision.text or "Approved.")
