"""The REST API of what people ask for and agree to.

Decides the shapes of manual actions and votes. Rights are asked in the cluster that is meant; a token of scope `act`
may what its person may. Refuses to count a vote for any plan but the one whose hash is sent along.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from django.http import HttpRequest
from ninja import Router, Schema
from ninja.errors import HttpError
from pydantic import AfterValidator, Field

from fleet.api.callers import caller_of
from fleet.api.paging import LARGEST
from fleet.api.people import Action, Reason, may_there, operator_in, person_of, plain
from fleet.lifecycle import ballots, manual
from fleet.lifecycle.machine import WorkflowState
from fleet.policy import asking
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import approvals_page, node_page

router = Router(tags=["acts"])


ApprovalState = Literal["pending", "approved", "rejected", "expired", "withdrawn"]


class ActIn(Schema):
    action: Action
    reason: Reason


class ActOut(Schema):
    workflow: int
    state: WorkflowState
    waits_for_approval: bool


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
    state: ApprovalState
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
    reason: Annotated[str, Field(max_length=300), AfterValidator(plain)] = ""


class Decided(Schema):
    decided: bool
    text: str


@router.post("/nodes/{name}/acts", response=ActOut, summary="Ask for an action on one node")
def act(request: HttpRequest, name: str, body: ActIn, cluster: str = "") -> ActOut:
    found = node_page.find(_plain_or_404(name), caller_of(request).visible, _plain_or_404(cluster))
    if not found:
        raise HttpError(404, f"No node {name} is in view.")
    if len(found) > 1:
        raise HttpError(409, f"Several clusters have a node {name}: add ?cluster=.")
    node = found[0]
    person = operator_in(request, node.cluster.name)
    try:
        made, refused = manual.request([node.pk], body.action, person.username, body.reason, SYSTEM_CLOCK.now())
    except manual.ManualRefused as error:
        raise HttpError(422, str(error)) from error
    if not made:
        raise HttpError(409, " ".join(refused.values()))
    return ActOut(
        workflow=made[0].pk, state=WorkflowState(made[0].state), waits_for_approval=made[0].state == "waiting"
    )


def _plain_or_404(text: str) -> str:
    if "\0" in text:
        raise HttpError(404, "No such thing is in view.")
    return text


@router.get("/approvals", response=list[ApprovalOut], summary="What waits for approval, or was decided lately")
def approvals(request: HttpRequest, state: Literal["pending", "decided"] = "pending") -> list[dict[str, Any]]:
    caller, now = caller_of(request), SYSTEM_CLOCK.now()
    find = approvals_page.pending if state == "pending" else approvals_page.decided
    found = find(caller.visible, caller.name, lambda right, cluster: may_there(request, right, cluster), now)
    return [_approval(one) for one in found]


def _approval(one: approvals_page.Request) -> dict[str, Any]:
    row = one.row
    votes = [VoteOut(by=vote.by, yes=vote.yes, reason=vote.reason, at=vote.at) for vote in one.votes]
    return {
        "id": row.pk,
        "subject": row.subject,
        "kind": row.kind,
        "cluster": one.cluster,
        "title": one.title,
        "state": row.state,
        "requested_by": row.requested_by,
        "reason": row.reason,
        "summary": row.summary,
        "plan_hash": row.plan_hash,
        "needed": row.needed,
        "votes": votes,
        "expires_at": row.expires_at,
        "refusal": one.refusal,
    }


@router.post("/approvals/{pk}/approve", response=Decided, summary="Agree to exactly the plan of that hash")
def approve(request: HttpRequest, pk: int, body: VoteIn) -> Decided:
    return _vote(request, pk, body, yes=True)


@router.post("/approvals/{pk}/reject", response=Decided, summary="Say no, with a reason")
def reject(request: HttpRequest, pk: int, body: VoteIn) -> Decided:
    return _vote(request, pk, body, yes=False)


def _vote(request: HttpRequest, pk: int, body: VoteIn, yes: bool) -> Decided:
    person, now = person_of(request), SYSTEM_CLOCK.now()
    one = approvals_page.one(
        min(pk, LARGEST), caller_of(request).visible, person.username, lambda r, c: may_there(request, r, c), now
    )
    if one is None:
        raise HttpError(404, f"No request {pk} is in view.")
    if not may_there(request, approvals_page.right_for(one.row), one.cluster):
        raise HttpError(403, one.refusal)
    if body.plan_hash != one.row.plan_hash:
        raise HttpError(409, "This is not the plan that is asked for: read it again.")
    try:
        decision = ballots.vote(one.row.pk, person.username, yes, body.reason, now)
    except asking.VoteRefused as error:
        raise HttpError(409, str(error)) from error
    return Decided(decided=decision.allowed or not yes, text=decision.text or "Approved.")
