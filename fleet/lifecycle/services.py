"""What people and the observer may ask of the engine.

Decides whether a request is possible now, and writes it as a change of the workflow that the engine then carries out.
Refuses, with a sentence, what would leave a node half-done: nothing here calls a cluster or a BMC.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import F, QuerySet

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import approving, forcing, grants, intents, planner, skipping, tripping
from fleet.lifecycle.fence import Change, Stale, write
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.lifecycle.models import Intent, NodeLifecycle, Step, Workflow
from fleet.lifecycle.persist import NOT_BLOCKED
from fleet.lifecycle.playbooks import DISRUPTIVE, DRAIN, RELEASE, SOAK, VALIDATE
from fleet.lifecycle.rows import ensure_rows, retire_nodes, settle_released
from fleet.policy import asking
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.tickets import services as tickets
from fleet.tickets.models import Ticket


class Refused(Exception):
    """The request is not possible now; the text says why."""


def plan(
    cluster_id: int,
    incident_ids: Iterable[int],
    now: datetime | None = None,
    clock: Clock = SYSTEM_CLOCK,
    journal: list[audit.Entry] | None = None,
) -> list[int]:
    """See `planner.plan`. `now` is accepted for callers that stamp a whole transaction with one time."""
    return planner.plan(cluster_id, incident_ids, clock, journal=journal)


def _locked(workflow_id: int) -> Workflow:
    return (
        Workflow.objects.select_for_update(of=("self",))
        .select_related("node", "cluster", "incident")
        .get(pk=workflow_id)
    )


def _entry(workflow: Workflow, actor: str, action: str, **detail: Any) -> audit.Entry:
    return audit.Entry(
        actor=actor, action=action, object=f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail
    )


def _apply(
    workflow: Workflow, changes: dict[str, Any], entry: audit.Entry, now: datetime, actor: str, **node: Any
) -> None:
    try:
        write(workflow, Change({"version": workflow.version + 1, **changes}, entries=[entry], **node), now, actor)
    except Stale as error:
        raise Refused("It changed at the same moment; look again.") from error


@transaction.atomic
def retry_now(workflow_id: int, actor: str, now: datetime) -> None:
    """Do not wait for the countdown: try the current step now."""
    workflow = _locked(workflow_id)
    if workflow.state not in (WorkflowState.RUNNING, WorkflowState.BLOCKED):
        raise Refused(f"{workflow.label} is {workflow.state}: there is nothing to retry.")
    if workflow.blocked_code in grants.GUARD_CODES:
        transaction.on_commit(lambda: _ask(workflow.cluster_id), robust=True)
        changes: dict[str, Any] = {}
    else:
        changes = {"wake_at": now}
    open_step = Step.objects.filter(workflow=workflow, index=workflow.step, attempt=workflow.attempt, ended_at=None)
    open_step.update(deadline=None)  # a person gives it its time anew
    _apply(workflow, changes, _entry(workflow, actor, "workflow.retry", verb=workflow.verb), now, actor)


def _ask(cluster_id: int) -> None:
    grants.run(cluster_id, SYSTEM_CLOCK)


@transaction.atomic
def skip_step(workflow_id: int, actor: str, reason: str, now: datetime) -> None:
    """A person takes the responsibility for a drain, a validation or a soak that is not finished."""
    workflow = _locked(workflow_id)
    verb = workflow.verb
    if not reason.strip():
        raise Refused("Skipping a step takes a reason.")
    if said := skipping.refusal(workflow, now):
        raise Refused(said)
    Step.objects.filter(workflow=workflow, index=workflow.step, attempt=workflow.attempt).update(
        state="skipped", ended_at=now, text=f"Skipped by {actor}: {reason}"[:500]
    )
    changes = {**NOT_BLOCKED, "step": workflow.step + 1, "wake_at": now}
    path = {
        DRAIN: (NodeState.DRAINING, NodeState.DRAINED),
        VALIDATE: (NodeState.VALIDATING,),
        SOAK: (NodeState.VALIDATING, NodeState.SOAKING),
    }[verb]
    _walk(workflow, path, f"{actor} skipped {verb}: {reason}", actor, now)
    _apply(workflow, changes, _entry(workflow, actor, "workflow.skip", verb=verb, reason=reason), now, actor)


def _walk(workflow: Workflow, path: tuple[NodeState, ...], reason: str, actor: str, now: datetime) -> None:
    """Bring the node's state to the end of `path` along the machine's edges, from wherever on it the node is."""
    row = NodeLifecycle.objects.select_for_update().get(node_id=workflow.node_id)
    start = path.index(NodeState(row.state)) + 1 if row.state in path else 0
    for state in path[start:]:
        NodeLifecycle.objects.filter(pk=row.pk).update(state=state, since=now, reason=reason[:300], by=actor)


@transaction.atomic
def abort(workflow_id: int, actor: str, reason: str, now: datetime) -> None:
    """End the workflow; what we held is given back by a last step, and the node is left to people."""
    workflow = _locked(workflow_id)
    if not reason.strip():
        raise Refused("Aborting takes a reason.")
    entry = _entry(workflow, actor, "workflow.abort", verb=workflow.verb, reason=reason)
    text = f"Aborted by {actor}: {reason}"[:300]
    if workflow.state in (WorkflowState.PLANNED, WorkflowState.WAITING):
        ended = {"state": WorkflowState.CANCELLED, "wake_at": None, "ended_at": now, "outcome": text}
        asking.withdraw([approving.subject_of(workflow)], now)
        _apply(workflow, ended, entry, now, actor)
        return
    if workflow.state not in OPEN_WORKFLOW_STATES:
        raise Refused(f"{workflow.label} has ended already.")
    if workflow.verb == RELEASE:
        raise Refused("It is being released already.")
    if _reset_under_way(workflow):
        raise Refused("A reset was sent and the node is not back yet; abort when it is.")
    Step.objects.filter(workflow=workflow, ended_at=None).update(state="cancelled", ended_at=now, text=text)
    verbs = [*workflow.plan[: workflow.step], {"verb": RELEASE}]
    _apply(workflow, {**NOT_BLOCKED, "plan": verbs, "wake_at": now, "outcome": text}, entry, now, actor)


def _reset_under_way(workflow: Workflow) -> bool:
    return (
        workflow.verb in DISRUPTIVE
        and workflow.state in (WorkflowState.RUNNING, WorkflowState.BLOCKED)
        and Intent.objects.filter(workflow=workflow, step__attempt=workflow.attempt, verb__in=intents.DISRUPTING)
        .exclude(outcome__in=[intents.EXPIRED, intents.REFUSED, intents.FAILED])
        .exists()
    )


def approve(workflow_id: int, actor: str, now: datetime, reason: str = "") -> None:
    """One person's yes; the plan, or what is asked for its drain, goes on once enough others have said so."""
    try:
        if forcing.vote(workflow_id, actor, True, reason, now) is None:
            approving.vote(workflow_id, actor, True, reason, now)
    except asking.VoteRefused as error:
        raise Refused(str(error)) from error


def reject(workflow_id: int, actor: str, reason: str, now: datetime) -> None:
    """One person's no ends the plan, or what is asked for its drain."""
    if not reason.strip():
        raise Refused("Rejecting a plan takes a reason.")
    try:
        if forcing.vote(workflow_id, actor, False, reason, now) is None:
            approving.vote(workflow_id, actor, False, reason, now)
    except asking.VoteRefused as error:
        raise Refused(str(error)) from error


@transaction.atomic
def close_ticket(ticket_id: int, actor: str, resolution: str, now: datetime) -> None:
    """The repair is done: the node goes to validation. Evidence older than now is history."""
    if not resolution.strip():
        raise Refused("Closing a ticket takes a word on what was done.")
    ticket = Ticket.objects.select_related("node").get(pk=ticket_id)
    workflow = (
        Workflow.objects.select_for_update(of=("self",))
        .select_related("node", "cluster")
        .filter(node=ticket.node, state=WorkflowState.REPAIR)
        .first()
    )
    entries = tickets.close_ticket(ticket, actor, resolution, now)
    if entries is None:
        raise Refused(f"{ticket.label} is closed already.")
    if workflow is None:
        audit.record(audit.chain_of(ticket.cluster_id), entries, now)
        return
    verbs = [item["verb"] for item in workflow.plan]
    changes = {
        **NOT_BLOCKED,
        "step": verbs.index(VALIDATE),
        "attempt": workflow.attempt + 1,
        "wake_at": now,
        "node_uid": workflow.node.uid,
        "version": workflow.version + 1,
    }
    state = NodeLifecycle.objects.values_list("state", flat=True).get(node=ticket.node)
    Step.objects.filter(workflow=workflow, ended_at=None).update(
        state="done", ended_at=now, text=f"{ticket.label} closed."
    )
    moved = NodeState.VALIDATING if state == NodeState.AWAITING_REPAIR else None
    change = Change(changes, moved, f"{ticket.label} closed by {actor}.", {"remediated_at": now}, entries)
    write(workflow, change, now, actor)


@transaction.atomic
def person_uncordoned(cluster_id: int, node_ids: Iterable[int], now: datetime) -> None:
    """Our mark is on a schedulable node: wake its workflow, whose step sees that and respects it."""
    Workflow.objects.filter(
        cluster_id=cluster_id,
        node_id__in=list(node_ids),
        state__in=[WorkflowState.RUNNING, WorkflowState.BLOCKED, WorkflowState.REPAIR],
    ).exclude(hold_value="").update(
        wake_at=now, version=F("version") + 1, state=WorkflowState.RUNNING, blocked_code="", blocked_text=""
    )


@transaction.atomic
def set_mode(cluster: Cluster, mode: str, by: str, now: datetime, clock: Clock = SYSTEM_CLOCK) -> None:
    """Change the mode. Raising discards stored plans, looks at current health anew, and goes on one node at a time."""
    row = Cluster.objects.select_for_update().get(pk=cluster.pk)
    old = row.mode
    raised = planner.MODE_ORDER.index(Mode(mode)) > planner.MODE_ORDER.index(Mode(old))
    if old == mode:
        return
    Cluster.objects.filter(pk=cluster.pk).update(
        mode=mode, mode_since=now, half_open=raised and row.connected_at is not None
    )
    _discard(Workflow.objects.filter(cluster=cluster, incident__isnull=False), "The mode changed.", now)
    publish(cluster.pk, [Notice("mode", cluster.name)], now)
    entry = audit.Entry(
        actor=by, action="cluster.mode", object=f"cluster:{cluster.pk}", detail={"from": old, "to": mode}
    )
    audit.record(audit.chain_of(cluster.pk), [entry], now)
    transaction.on_commit(lambda: _after_mode(cluster.pk, clock, by), robust=True)


def _discard(workflows: QuerySet[Workflow], text: str, now: datetime) -> int:
    """Cancel those that have not begun, and withdraw what was asked of people for them."""
    stored = workflows.filter(state__in=[WorkflowState.PLANNED, WorkflowState.WAITING])
    pks = list(stored.values_list("pk", flat=True))
    asking.withdraw([f"workflow:{pk}" for pk in pks], now)
    return Workflow.objects.filter(pk__in=pks, state__in=[WorkflowState.PLANNED, WorkflowState.WAITING]).update(
        state=WorkflowState.CANCELLED, ended_at=now, wake_at=None, outcome=text, version=F("version") + 1
    )


def _after_mode(cluster_id: int, clock: Clock, by: str) -> None:
    planner.replan(cluster_id, clock, by)
    grants.run(cluster_id, clock)


@transaction.atomic
def reset_breaker(cluster: Cluster, by: str, reason: str, now: datetime, clock: Clock = SYSTEM_CLOCK) -> None:
    """Close an open breaker after a cool-down: current health is looked at anew, then one node goes first."""
    if not reason.strip():
        raise Refused("Resetting the breaker takes a reason.")
    if not tripping.reset(cluster, by, reason, now):
        raise Refused("The breaker of this cluster is not open.")
    transaction.on_commit(lambda: _after_mode(cluster.pk, clock, by), robust=True)


@transaction.atomic
def drop_settled_plans(now: datetime) -> int:
    """Plans of observe and recommend mode whose incident is over are discarded."""
    over = Workflow.objects.filter(incident__isnull=False).exclude(incident__state="open")
    return _discard(over, "The incident is over.", now)


__all__ = [
    "Refused",
    "abort",
    "approve",
    "close_ticket",
    "drop_settled_plans",
    "ensure_rows",
    "person_uncordoned",
    "plan",
    "reject",
    "reset_breaker",
    "retire_nodes",
    "retry_now",
    "set_mode",
    "settle_released",
    "skip_step",
]
