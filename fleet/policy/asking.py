"""Requests for approval and the votes on them.

Decides how many people a request needs and until when, from the installation's rules. Refuses a vote that does not
count, with the sentence that says why. What an approval lets go on is its caller's business.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.policy import approvals
from fleet.policy.models import Approval, ApprovalRule, ApprovalVote
from fleet.policy.rules import Decision


class VoteRefused(Exception):
    """The vote does not count; the text says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request in the making. `cluster_id` None: it concerns the whole site."""

    subject: str
    kind: str
    plan_hash: str
    requested_by: str
    cluster_id: int | None
    node: str = ""
    reason: str = ""
    summary: Mapping[str, Any] | None = None


def rule(kind: str) -> tuple[int, int]:
    """(people beside the requester, minutes)."""
    row = ApprovalRule.objects.filter(kind=kind).values_list("needed", "minutes").first()
    return row or approvals.KINDS[kind]


def ask(wanted: Iterable[Wanted], now: datetime) -> list[Approval]:
    """Write requests, in the caller's transaction. An older request for the same subject is withdrawn."""
    items = list(wanted)
    Approval.objects.filter(subject__in=[item.subject for item in items], state=Approval.PENDING).update(
        state=Approval.WITHDRAWN, decided_at=now
    )
    rules = {kind: rule(kind) for kind in {item.kind for item in items}}
    made = Approval.objects.bulk_create(
        Approval(
            cluster_id=item.cluster_id,
            subject=item.subject,
            kind=item.kind,
            plan_hash=item.plan_hash,
            summary=dict(item.summary or {}),
            requested_by=item.requested_by,
            reason=item.reason[:300],
            needed=rules[item.kind][0],
            created_at=now,
            expires_at=now + timedelta(minutes=rules[item.kind][1]),
        )
        for item in items
    )
    for cluster_id in {item.cluster_id for item in items}:
        publish(cluster_id, [Notice("approval", row.subject) for row in made if row.cluster_id == cluster_id], now)
    return made


def vote(approval_id: int, by: str, yes: bool, reason: str, current_hash: str, now: datetime) -> Decision:
    """Record a vote and settle the request if it decides it. In the caller's transaction. Raises VoteRefused."""
    row = Approval.objects.select_for_update().get(pk=approval_id)
    if row.state != Approval.PENDING:
        raise VoteRefused(f"The request is {row.state} already.")
    request = approvals.Ask(row.plan_hash, row.requested_by, row.needed, row.expires_at)
    votes = [approvals.Vote(one.by, one.yes) for one in row.votes.all()]
    said = approvals.may_vote(request, votes, by, current_hash, now)
    if said:
        raise VoteRefused(said)
    ApprovalVote.objects.create(approval=row, by=by, yes=yes, reason=reason[:300], at=now)
    decision = approvals.answer(request, [*votes, approvals.Vote(by, yes)], current_hash, now)
    state = Approval.APPROVED if decision.allowed else Approval.REJECTED if not yes else Approval.PENDING
    if state != Approval.PENDING:
        Approval.objects.filter(pk=row.pk).update(state=state, decided_at=now)
    publish(row.cluster_id, [Notice("approval", row.subject)], now)
    detail = {"approval": row.pk, "yes": yes, "reason": reason, "plan_hash": row.plan_hash, "state": state}
    chain = audit.chain_of(row.cluster_id) if row.cluster_id else "site"
    audit.record(chain, [audit.Entry(actor=by, action="approval.vote", object=row.subject, detail=detail)], now)
    return decision


def expire(now: datetime) -> list[str]:
    """Close what has run out; the subjects of it."""
    rows = Approval.objects.select_for_update(skip_locked=True).filter(state=Approval.PENDING, expires_at__lte=now)
    found = dict(rows.values_list("pk", "subject"))
    Approval.objects.filter(pk__in=found).update(state=Approval.EXPIRED, decided_at=now)
    return list(found.values())


def withdraw(subjects: Iterable[str], now: datetime) -> None:
    """What was asked for is not wanted any more."""
    rows = Approval.objects.filter(subject__in=list(subjects), state=Approval.PENDING)
    rows.update(state=Approval.WITHDRAWN, decided_at=now)
