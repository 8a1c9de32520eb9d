"""One action on many nodes: an exact list, agreed to, then begun as guards allow.

Decides what a batch is (the list, the action, the pace, and the hash of all three), who must agree to it and when it
may start, pause, go on and end. Refuses an empty list, more nodes than the person's role may touch, a start of
anything but what was shown, and a list that is not exactly the one that was approved.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import requester, services, shelf
from fleet.lifecycle.asked import Asked, Unknown, again, kept, of_action, of_playbook
from fleet.lifecycle.maintenance_pace import Pace, Progress
from fleet.lifecycle.models import Batch, BatchNode
from fleet.lifecycle.playbooks import RELEASE
from fleet.policy import approvals, asking, rolecaps
from fleet.policy import selectors as policy
from fleet.policy.models import Approval
from fleet.policy.rules import Decision
from fleet.policy.windows import OPENING, Window

TOLD = 20  # names and gangs that a request for approval carries
MOST_AT_ONCE = 1000
OPEN = (Batch.WAITING, Batch.RUNNING, Batch.PAUSED)


class Refused(Exception):
    """It is not possible now; the text says why."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a person asks for: an action, or a playbook (`NAME` or `NAME@VERSION`). `roles` are the person's in the
    cluster; `selection` is how the nodes were found."""

    cluster: Cluster
    node_ids: Sequence[int]
    action: str
    by: str
    reason: str
    roles: Collection[str]
    selection: dict[str, Any] = field(default_factory=dict)
    pace: Pace = field(default_factory=Pace)
    spare_jobs: bool = False
    playbook: str = ""


@transaction.atomic
def draft(wanted: Wanted, now: datetime) -> Batch:
    """The exact list, kept but not started: a person looks at it first. Raises Refused."""
    asked = _check(wanted)
    nodes = list(Node.objects.filter(cluster=wanted.cluster, pk__in=wanted.node_ids, gone_at=None).order_by("name"))
    if len(nodes) != len(set(wanted.node_ids)):
        raise Refused("Some of these nodes have left the cluster: select anew.")
    said = rolecaps.refusal(len(nodes), wanted.roles, policy.role_caps())
    if said:
        raise Refused(said)
    window = wanted.pace.window
    batch = Batch.objects.create(
        cluster=wanted.cluster,
        action=asked.action,
        playbook=kept(asked),
        reason=wanted.reason.strip()[:300],
        selection=wanted.selection,
        at_once=wanted.pace.at_once,
        stop_after=wanted.pace.stop_after,
        spare_jobs=wanted.spare_jobs,
        window=_window_as_json(window) if window else None,
        begins=window.begins if window else None,
        ends=window.ends if window else None,
        needs_approval=kind_of(asked) != "",
        requested_by=wanted.by,
        created_at=now,
    )
    BatchNode.objects.bulk_create(
        [BatchNode(batch=batch, node=node, place=place, uid=node.uid) for place, node in enumerate(nodes)]
    )
    batch.plan_hash = hash_of(batch)
    batch.save(update_fields=["plan_hash"])
    return batch


def _check(wanted: Wanted) -> Asked:
    if bool(wanted.action) == bool(wanted.playbook):
        raise Refused("Either an action or a playbook.")
    try:
        named = wanted.playbook and of_playbook(wanted.playbook, shelf.book(), bool(wanted.cluster.provisioner))
        asked = named or of_action(wanted.action)
    except Unknown as error:
        raise Refused(str(error)) from error
    if not wanted.reason.strip():
        raise Refused("It takes a reason, which the audit log keeps.")
    if not wanted.node_ids:
        raise Refused("No node passes this selection.")
    pace = wanted.pace
    for said, number in (("At once", pace.at_once), ("Failures that stop it", pace.stop_after)):
        if number is not None and not 1 <= number <= MOST_AT_ONCE:
            raise Refused(f"{said}: a number from 1 to {MOST_AT_ONCE}.")
    problem = pace.window.problem() if pace.window else ""
    if problem:
        raise Refused(problem)
    return asked


def asked_of(batch: Batch) -> Asked:
    return again(batch.action, batch.playbook)


def named_of(batch: Batch) -> str:
    """`NAME@VERSION` of its playbook; "" of an action."""
    return f"{batch.playbook['name']}@{batch.playbook['version']}" if batch.playbook else ""


def kind_of(asked: Asked) -> str:
    """Which kind of approval a batch of it needs: the strictest of bulk's and those of its verbs; "" for none."""
    if asked.action == RELEASE:
        return ""
    strictest = max([approvals.BULK, *asked.kinds], key=lambda kind: asking.rule(kind)[0])
    return strictest if asking.rule(strictest)[0] else ""


def subject_of(batch: Batch) -> str:
    return f"batch:{batch.pk}"


def hash_of(batch: Batch) -> str:
    """Of what people see and agree to: which nodes, by identity, what is done to them, and how fast."""
    nodes = [(member.node_id, member.uid) for member in sorted(batch.members.all(), key=lambda one: one.place)]
    return approvals.plan_hash(
        {
            "cluster": batch.cluster_id,
            "action": batch.action,
            **({"playbook": batch.playbook} if batch.playbook else {}),
            "nodes": nodes,
            "at_once": batch.at_once,
            "stop_after": batch.stop_after,
            "spare_jobs": batch.spare_jobs,
            "window": batch.window,
            "begins": batch.begins.isoformat() if batch.begins else None,
            "ends": batch.ends.isoformat() if batch.ends else None,
        }
    )


def pace_of(batch: Batch) -> Pace:
    return Pace(batch.at_once, batch.stop_after, window_of(batch))


def window_of(batch: Batch) -> Window | None:
    kept = batch.window
    if not kept:
        return None
    days = frozenset(int(day) for day in kept["days"])
    start = time.fromisoformat(kept["start"])
    return Window(
        OPENING, batch.label, kept["zone"], days, start, kept["minutes"], begins=batch.begins, ends=batch.ends
    )


def _window_as_json(window: Window) -> dict[str, Any]:
    return {
        "zone": window.zone,
        "days": "".join(str(day) for day in sorted(window.days)),
        "start": window.start.isoformat(timespec="minutes"),
        "minutes": window.minutes,
    }


@transaction.atomic
def start(batch_id: int, plan_hash: str, by: str, now: datetime) -> Batch:
    """Start what was shown, or ask for the approval that it needs. Only whoever drew it up may. Raises Refused."""
    batch = _locked(batch_id)
    if batch.state != Batch.DRAFT:
        raise Refused(f"{batch.label} was started already.")
    if by != batch.requested_by:
        raise Refused(f"{batch.requested_by} drew it up, and is the one to start it.")
    if plan_hash != batch.plan_hash or plan_hash != hash_of(batch):
        raise Refused("This is not the list that was shown: select anew.")
    if said := requester.refusal(by, batch.cluster, batch.members.count()):
        raise Refused(said)
    kind = kind_of(asked_of(batch))
    if not kind:
        move(batch, Batch.RUNNING, "", by, "batch.start", now, started_at=now, needs_approval=False)
        return batch
    asking.ask([_request(batch, kind)], now)
    move(batch, Batch.WAITING, "Waits for approval.", by, "batch.ask", now)
    return batch


def _request(batch: Batch, kind: str) -> asking.Wanted:
    nodes = list(Node.objects.filter(batch_members__batch=batch).order_by("name").values_list("name", "gang", "pods"))
    gangs = sorted({gang for _, gang, _ in nodes if gang})
    summary = {
        "action": batch.action,
        "count": len(nodes),
        "nodes": [name for name, _, _ in nodes[:TOLD]],
        "playbook": named_of(batch),
        "verbs": [step.verb for step in asked_of(batch).steps],
        "gangs": gangs[:TOLD],
        "gang_count": len(gangs),
        "pods": sum(pods for _, _, pods in nodes),
    }
    return asking.Wanted(
        subject=subject_of(batch), kind=kind, plan_hash=batch.plan_hash, requested_by=batch.requested_by,
        cluster_id=batch.cluster_id, reason=batch.reason, summary=summary,
    )  # fmt: skip


@transaction.atomic
def vote(batch_id: int, actor: str, yes: bool, reason: str, now: datetime) -> Decision:
    """One person's word on the batch's pending request. Raises asking.VoteRefused."""
    batch = _locked(batch_id)
    row = Approval.objects.filter(subject=subject_of(batch), state=Approval.PENDING).first()
    if row is None:
        raise asking.VoteRefused(f"{batch.label} does not wait for approval.")
    current = hash_of(batch)
    decision = asking.vote(row.pk, actor, yes, reason, current, now)
    if decision.allowed:
        move(batch, Batch.RUNNING, "", actor, "batch.start", now, started_at=now, approved_hash=current)
    elif not yes:
        move(batch, Batch.CANCELLED, f"Rejected by {actor}: {reason}", actor, "batch.cancel", now, ended_at=now)
    else:
        move(batch, Batch.WAITING, decision.text, actor, "", now, until=decision.until)
    return decision


@transaction.atomic
def pause(batch_id: int, by: str, reason: str, now: datetime) -> None:
    """Begin no further node; what is under way goes on."""
    batch = _locked(batch_id)
    if batch.state != Batch.RUNNING:
        raise Refused(f"{batch.label} does not run.")
    if not reason.strip():
        raise Refused("Pausing takes a reason.")
    move(batch, Batch.PAUSED, f"Paused by {by}: {reason}", by, "batch.pause", now)


@transaction.atomic
def resume(batch_id: int, by: str, now: datetime) -> None:
    """Go on; failures until now stop it no more."""
    batch = _locked(batch_id)
    if batch.state != Batch.PAUSED:
        raise Refused(f"{batch.label} is not paused.")
    seen = progress_of(batch, list(batch.members.all())).failed
    move(batch, Batch.RUNNING, "", by, "batch.resume", now, forgiven=seen)


def progress_of(batch: Batch, members: Sequence[BatchNode]) -> Progress:
    """How far it is. A node whose workflow waits for a person's decision counts as failed."""
    counts = Counter(member.state for member in members)
    stuck = sum(member.state == BatchNode.BEGUN and member.code == "stopped_here" for member in members)
    failed = counts[BatchNode.FAILED] + stuck
    return Progress(counts[BatchNode.PENDING], counts[BatchNode.BEGUN], failed, batch.forgiven)


@transaction.atomic
def cancel(batch_id: int, by: str, reason: str, now: datetime) -> None:
    """End it. A node that was not touched yet is left; what is under way on others ends by itself."""
    batch = _locked(batch_id)
    if batch.state not in (Batch.DRAFT, *OPEN):
        raise Refused(f"{batch.label} has ended already.")
    if not reason.strip():
        raise Refused("Cancelling takes a reason.")
    asking.withdraw([subject_of(batch)], now)
    waiting = batch.members.filter(state=BatchNode.BEGUN, workflow__started_at=None, workflow__ended_at=None)
    for pk in waiting.values_list("workflow_id", flat=True):
        with suppress(services.Refused):  # it began at this moment: then it ends by itself
            services.abort(pk, by, f"{batch.label} was cancelled: {reason}", now)
    move(batch, Batch.CANCELLED, f"Cancelled by {by}: {reason}", by, "batch.cancel", now, ended_at=now)


def _locked(batch_id: int) -> Batch:
    return Batch.objects.select_for_update(of=("self",)).select_related("cluster").get(pk=batch_id)


def move(batch: Batch, state: str, text: str, by: str, action: str, now: datetime, **fields: Any) -> None:
    """Write the state with what it means, tell the pages, and the audit log where there is an `action`."""
    for name, value in {"until": None, **fields, "state": state, "text": text[:500]}.items():
        setattr(batch, name, value)
    batch.save(update_fields=[*{"until", *fields, "state", "text"}])
    publish(batch.cluster_id, [Notice("batch", str(batch.pk))], now)
    if action:
        detail = {"action": named_of(batch) or batch.action, "reason": text or batch.reason}
        detail["plan_hash"] = batch.plan_hash
        entry = audit.Entry(actor=by, action=action, object=subject_of(batch), detail=detail)
        audit.record(audit.chain_of(batch.cluster_id), [entry], now)
