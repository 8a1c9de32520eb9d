"""Votes on requests for approval, whatever they are about.

Decides from the request's subject who carries out what a vote decides. Refuses a no without a reason, and a subject
that nobody here knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from fleet.lifecycle import approving, bulk, forcing
from fleet.lifecycle.models import Batch, Workflow
from fleet.policy import asking, versions
from fleet.policy.models import Approval
from fleet.policy.rules import Decision

VOTERS: dict[str, Callable[[int, str, bool, str, datetime], Decision]] = {
    "workflow": approving.vote,
    "batch": bulk.vote,
    **dict.fromkeys(forcing.SUBJECTS.values(), forcing.vote_on_one),
    "policy": versions.vote,
}


def thing(row: Approval) -> tuple[str, int]:
    """What the request is about: (kind of subject, its id)."""
    kind, _, number = row.subject.partition(":")
    return kind, int(number) if number.isdecimal() else 0


def vote(approval_id: int, actor: str, yes: bool, reason: str, now: datetime) -> Decision:
    """One person's word on one request. Raises asking.VoteRefused."""
    row = Approval.objects.filter(pk=approval_id).first()
    if row is None or thing(row)[0] not in VOTERS:
        raise asking.VoteRefused("There is no such request.")
    if row.state != Approval.PENDING:
        raise asking.VoteRefused(f"The request is {row.state} already.")
    if not yes and not reason.strip():
        raise asking.VoteRefused("A no takes a reason, which the audit log keeps.")
    kind, number = thing(row)
    if kind in forcing.SUBJECTS.values() and _earlier(row, number):
        raise asking.VoteRefused("Something else was asked for this drain before; answer that first.")
    try:
        return VOTERS[kind](number, actor, yes, reason.strip()[:300], now)
    except versions.Refused as error:
        raise asking.VoteRefused(str(error)) from error


def _earlier(row: Approval, workflow_id: int) -> bool:
    """A drain's requests are answered in the order in which they were made."""
    others = [forcing.subject_of(workflow_id, kind) for kind in forcing.SUBJECTS]
    return Approval.objects.filter(subject__in=others, state=Approval.PENDING, pk__lt=row.pk).exists()


def hashes(rows: Iterable[Approval]) -> dict[int, str]:
    """Request -> the hash of its plan as it is now; a policy's is compared with its vote. Four queries."""
    asked = list(rows)
    things = {row.pk: thing(row) for row in asked if thing(row)[0] in ("workflow", "batch")}
    wanted = {kind: [number for one, number in things.values() if one == kind] for kind in ("workflow", "batch")}
    now: dict[tuple[str, int], str] = {
        ("workflow", found.pk): approving.hash_of(found) for found in Workflow.objects.filter(pk__in=wanted["workflow"])
    }
    for batch in Batch.objects.filter(pk__in=wanted["batch"]).prefetch_related("members"):
        now["batch", batch.pk] = bulk.hash_of(batch)
    return {pk: now.get(about, "") for pk, about in things.items()} | forcing.hashes(asked)
