"""Drives batches: begins nodes while window, pace and guards allow, and follows those that are under way.

Decides for each node of a running batch whether it begins now and what it waits for, from the guards and the pace; a
batch that met too many failures, or whose window is over, is paused for a person. Refuses to begin anything of a batch
that is not exactly the one that was approved. Idempotent: driven twice, or by two at once, it begins nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q

from fleet.lifecycle import bulk, manual, requester
from fleet.lifecycle.bulk_foresee import NOW, REFUSED, Foresight
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.maintenance_pace import Turn, turn
from fleet.lifecycle.models import Batch, BatchNode, Workflow
from fleet.lifecycle.playbooks import KEEP, RELEASE, WAIT_REPAIR
from fleet.policy.models import Approval
from fleet.ports.clock import Clock

BY = "muster:sweep"
DRAFT_KEPT = timedelta(hours=1)
Member = BatchNode


def sweep(clock: Clock) -> int:
    """Drive everything that is open; drop drafts that nobody started. Returns how many nodes began."""
    now = clock.now()
    Batch.objects.filter(state=Batch.DRAFT, created_at__lt=now - DRAFT_KEPT).delete()
    wanted = Q(state__in=[Batch.RUNNING, Batch.WAITING]) | Q(members__state=Member.BEGUN)
    found = Batch.objects.filter(wanted).order_by("pk").values_list("pk", flat=True).distinct()
    return sum(drive(pk, clock) for pk in found)


def drive(batch_id: int, clock: Clock) -> int:
    """One turn of one batch; how many nodes began."""
    with transaction.atomic():
        batch = (
            Batch.objects.select_for_update(of=("self",), skip_locked=True)
            .select_related("cluster")
            .filter(pk=batch_id)
            .first()
        )
        if batch is None:
            return 0
        now = clock.now()
        if batch.state == Batch.WAITING:
            return _unanswered(batch, now)
        members = list(batch.members.select_related("node__cluster", "node__pool", "workflow").order_by("place"))
        changed = [member for member in members if _follow(batch, member)]
        begun = _begin(batch, members, changed, clock) if batch.state == Batch.RUNNING else 0
        Member.objects.bulk_update(changed, ["state", "code", "text", "workflow"], batch_size=500)
        if batch.state == Batch.RUNNING and not any(m.state in (Member.PENDING, Member.BEGUN) for m in members):
            bulk.move(batch, Batch.DONE, _sum(members), BY, "batch.done", now, ended_at=now)
        elif changed:
            bulk.move(batch, batch.state, batch.text, BY, "", now, until=batch.until)
    return begun


def _unanswered(batch: Batch, now: datetime) -> int:
    """The request ran out, or was withdrawn."""
    if not Approval.objects.filter(subject=bulk.subject_of(batch), state=Approval.PENDING).exists():
        text = "The request for approval expired."
        bulk.move(batch, Batch.CANCELLED, text, BY, "batch.cancel", now, ended_at=now)
    return 0


def _follow(batch: Batch, member: Member) -> bool:
    """Bring a node that has begun up to date with its workflow. True if that changed it."""
    if member.state != Member.BEGUN:
        return False
    before = (member.state, member.code, member.text)
    workflow = member.workflow
    member.state, member.code, member.text = _stands(batch, workflow) if workflow else _gone()
    return before != (member.state, member.code, member.text)


def _gone() -> tuple[str, str, str]:
    return Member.FAILED, "", "Its workflow is no more: the node left the cluster."


def _stands(batch: Batch, workflow: Workflow) -> tuple[str, str, str]:
    state, text = workflow.state, workflow.outcome or workflow.blocked_text
    if state == WorkflowState.CANCELLED and batch.action == RELEASE:
        return Member.DONE, "", text
    if state == WorkflowState.SUCCEEDED:
        return Member.DONE, "", text
    if state in (WorkflowState.FAILED, WorkflowState.CANCELLED):
        return Member.FAILED, "", text
    if state == WorkflowState.REPAIR and workflow.verb != WAIT_REPAIR:  # a plan may be for people from the start
        return Member.FAILED, "", "It needs repair by people: see its ticket."
    if workflow.verb == KEEP and batch.action != RELEASE:
        return Member.DONE, "", f"{'Drained' if batch.action == 'drain' else 'Held'}, and kept until it is released."
    return Member.BEGUN, workflow.blocked_code, workflow.blocked_text


def _begin(batch: Batch, members: Sequence[Member], changed: list[Member], clock: Clock) -> int:
    now = clock.now()
    pending = [member for member in members if member.state == Member.PENDING]
    if batch.needs_approval and batch.approved_hash != bulk.hash_of(batch):
        bulk.move(batch, Batch.PAUSED, "It is not the list that was approved.", BY, "batch.pause", now)
        return 0
    if any(member.state == Member.PENDING for member in members) and (
        said := requester.refusal(batch.requested_by, batch.cluster, len(members))
    ):
        bulk.move(batch, Batch.PAUSED, said, BY, "batch.pause", now)
        return 0
    given = turn(bulk.pace_of(batch), bulk.progress_of(batch, members), now)
    if given.pauses:
        bulk.move(batch, Batch.PAUSED, given.why.text, BY, "batch.pause", now)
        return 0
    if (batch.text, batch.until) != (given.why.text, given.why.until):
        bulk.move(batch, Batch.RUNNING, given.why.text, BY, "", now, until=given.why.until)
    sight = Foresight(batch.cluster, [member.node for member in pending], now) if given.room else None
    if sight is not None:
        for member in members:
            if member.state == Member.BEGUN and member.workflow:
                sight.expect(member.workflow)
    begun = 0
    for member in pending:
        before = (member.state, member.code, member.text)
        _ask(batch, member, given if begun < given.room else Turn(0, given.why), sight, clock)
        begun += member.state == Member.BEGUN
        if before != (member.state, member.code, member.text):
            changed.append(member)
    return begun


def _ask(batch: Batch, member: Member, given: Turn, sight: Foresight | None, clock: Clock) -> None:
    """Begin the node if it may, else say what it waits for."""
    if not given.room or sight is None:
        full = f"{batch.at_once} at once are under way; it begins when one of them ends."
        member.code, member.text = given.why.code or "at_once", given.why.text or full
        return
    if member.node.uid != member.uid:
        member.state, member.code = Member.REFUSED, ""
        member.text = "The node was replaced since the list was made."
        return
    asked = bulk.asked_of(batch)
    found = sight.ask(member.node, asked, batch.spare_jobs)
    member.code, member.text = found.why.code, found.why.text[:500]
    if found.answer == REFUSED and found.why.code != "mode":
        member.state = Member.REFUSED
    if found.answer != NOW:
        return
    reason, agreed = f"{batch.label}: {batch.reason}", batch.needs_approval
    made, refused = manual.begin([member.node_id], asked, batch.requested_by, reason, clock.now(), clock, agreed)
    if made:
        member.state, member.workflow, member.code, member.text = Member.BEGUN, made[0], "", "Begun."
    else:
        member.code, member.text = "busy", next(iter(refused.values()), "The node is gone.")[:500]


def _sum(members: Sequence[Member]) -> str:
    counts = Counter(member.state for member in members)
    told = [f"{counts[state]} {state}" for state in (Member.DONE, Member.FAILED, Member.REFUSED) if counts[state]]
    return f"{', '.join(told)}."
