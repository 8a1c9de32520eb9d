"""Persists what came of running a step.

Decides the next position of the workflow for each outcome: next step, wait, blocked, another attempt, repair, end.
One fenced transaction each; claims end with the step or the workflow that held them. Refuses to lose a reason: whatever
keeps a workflow waiting is on its row with a code, a sentence, a since and an until.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, JSONField, Value
from django.db.models.expressions import CombinedExpression

from fleet.audit import services as audit
from fleet.health import services as health
from fleet.health.models import Incident, Signal
from fleet.inventory.models import Cluster
from fleet.lifecycle import clock_back, effectiveness, grants, ladder
from fleet.lifecycle.fence import LEASE, Change, write
from fleet.lifecycle.machine import NODE_EDGES, NodeState, WorkflowState
from fleet.lifecycle.models import Intent, NodeLifecycle, Remedy, Step, Workflow
from fleet.lifecycle.outcomes import Blocked, Done, Ended, Failed, Outcome, Repair, Wait
from fleet.lifecycle.playbooks import CLAIMS, NEXT, REMEDIES, REPAIR, WAIT_REPAIR, PlannedStep, remedy_index
from fleet.lifecycle.validation import selectors as validation
from fleet.policy import services as claims
from fleet.policy.rules import IN_FLIGHT
from fleet.ports.clock import Clock
from fleet.tickets import services as tickets

NOT_BLOCKED: dict[str, Any] = {
    "state": WorkflowState.RUNNING,
    "blocked_code": "",
    "blocked_text": "",
    "blocked_since": None,
    "blocked_until": None,
}
AT_ONCE, AT_MOST = 3, 60.0
"""So often in a row is a step run again at once for one reason; then after twice as long each time, up to a minute."""
Followed = tuple[int, int, str]
"""(id, version, verb) under which the next message of a workflow goes out at once."""


def outcome(workflow: Workflow, step: Step, came: Outcome, clock: Clock) -> Followed | None:
    """Write `came`. None when nothing follows at once."""
    now = clock.now()
    with transaction.atomic():
        match came:
            case Done():
                return _done(workflow, step, came, now)
            case Wait():
                return _wait(workflow, step, came, now)
            case Blocked():
                _blocked(workflow, step, came, now)
            case Failed():
                return _failed(workflow, step, came, now)
            case Repair():
                _repair(workflow, step, came, now)
            case Ended():
                _ended(workflow, step, came, now)
    return None


def frees_room(workflow: Workflow, came: Outcome) -> bool:
    """Did this outcome release a claim, so that the next in line can be woken?"""
    return isinstance(came, Ended | Failed | Repair) or (
        isinstance(came, Done) and CLAIMS.get(workflow.verb) == IN_FLIGHT
    )


def _close_step(step: Step, state: str, text: str, now: datetime) -> None:
    Step.objects.filter(pk=step.pk).update(state=state, text=text[:500], ended_at=now)


def entry(workflow: Workflow, action: str, **detail: Any) -> audit.Entry:
    """What a worker did to a workflow, for the audit."""
    body = {"verb": workflow.verb, "attempt": workflow.attempt, "incident": workflow.incident_id, **detail}
    return audit.Entry(
        actor="muster:worker", action=action, object=f"workflow:{workflow.pk}", node=workflow.node.name, detail=body
    )


def _done(workflow: Workflow, step: Step, came: Done, now: datetime) -> Followed:
    _close_step(step, "done", came.text, now)
    if CLAIMS.get(workflow.verb) == IN_FLIGHT:
        claims.release(workflow.pk, now, [IN_FLIGHT])
    version = workflow.version + 1
    index = _following(workflow, came.goto)
    changes = {**NOT_BLOCKED, "step": index, "version": version, "wake_at": now + LEASE}
    told = [entry(workflow, "step.done", text=came.text)]
    write(workflow, Change(changes, came.state, came.text if came.state else "", entries=told), now)
    return workflow.pk, version, workflow.verb_at(index)


def _following(workflow: Workflow, goto: str) -> int:
    later = range(workflow.step + 1, len(workflow.plan))
    return next((index for index in later if workflow.plan[index]["verb"] == goto), workflow.step + 1)


def _wait(workflow: Workflow, step: Step, came: Wait, now: datetime) -> Followed | None:
    if step.text != came.text[:500]:
        Step.objects.filter(pk=step.pk).update(text=came.text[:500])
    seconds = came.seconds if came.seconds > 0 else _patience(step, came.text)
    if seconds > 0:
        write(workflow, Change({**NOT_BLOCKED, "wake_at": clock_back.soonest(now, seconds)}), now)
        return None
    write(workflow, Change({**NOT_BLOCKED, "version": workflow.version + 1, "wake_at": now + LEASE}), now)
    return workflow.pk, workflow.version + 1, workflow.verb


def _patience(step: Step, text: str) -> float:
    """Seconds before what is to be done again at once, for the same reason as before, is. A race is won in a few tries;
    what goes on losing it (two kubelets of one name, an admission rule) must not keep a worker and the log busy."""
    before, times = step.memo.get("at_once", ["", 0])
    times = times + 1 if before == text else 1
    mark = Value({"at_once": [text, times]}, JSONField())
    Step.objects.filter(pk=step.pk).update(memo=CombinedExpression(F("memo"), "||", mark))
    return min(2.0 ** (times - AT_ONCE - 1), AT_MOST) if times > AT_ONCE else 0.0


def _blocked(workflow: Workflow, step: Step, came: Blocked, now: datetime) -> None:
    """A guard's answer is waited for without a wake-up of its own: `grants.run` wakes it."""
    fresh = workflow.blocked_code != came.code
    until = came.until or now + timedelta(seconds=max(came.seconds, 1))
    changes: dict[str, Any] = {
        "state": WorkflowState.BLOCKED,
        "blocked_code": came.code[:32],
        "blocked_text": came.text[:500],
        "blocked_since": now if fresh or workflow.blocked_since is None else workflow.blocked_since,
        "blocked_until": until,
        "wake_at": None if came.code in grants.GUARD_CODES else clock_back.soonest(now, came.seconds),
    }
    if step.text != came.text[:500]:
        Step.objects.filter(pk=step.pk).update(text=came.text[:500])
    told = [entry(workflow, "workflow.blocked", code=came.code, text=came.text)]
    silent = not fresh or came.code == grants.ASKING
    write(workflow, Change(changes, entries=[] if silent else told), now)


def _failed(workflow: Workflow, step: Step, came: Failed, now: datetime) -> Followed | None:
    """The step once more, the next rung, a ticket, or a person's word: as the plan says."""
    planned = PlannedStep.of(workflow.plan[workflow.step])
    tries = int(step.memo.get("tries", 1))
    if tries <= planned.retries:
        _once_more(workflow, step, came, planned.backoff * 2 ** (tries - 1), now)
        return None
    effectiveness.record(workflow, Remedy.FAILED, now)
    again = remedy_index(workflow.plan)
    begun = again is not None and workflow.step >= again  # a drain that failed never leads to a reset
    if planned.on_failure == NEXT and again is not None and begun and workflow.attempt < workflow.attempts:
        return _next_rung(workflow, step, came, again, now)
    if planned.on_failure in (NEXT, REPAIR):
        why = f" Attempt {workflow.attempt} of {workflow.attempts}; attempts have run out." if begun else ""
        _repair(workflow, step, Repair(came.code, came.text + why, str(step.memo.get("part") or "")), now)
    else:
        _blocked(
            workflow, step, Blocked("stopped_here", f"{came.text} A person decides: retry, skip or abort.", 300), now
        )
    return None


def _once_more(workflow: Workflow, step: Step, came: Failed, delay: float, now: datetime) -> None:
    """The same step with an empty memory but for the count, after its back-off."""
    text = f"{came.text} Tried again at {now + timedelta(seconds=delay):%H:%M:%S} UTC."
    tries = int(step.memo.get("tries", 1)) + 1
    Step.objects.filter(pk=step.pk).update(memo={"tries": tries}, text=text[:500], deadline=None)
    told = entry(workflow, "step.retry", code=came.code, text=came.text, tries=tries)
    write(workflow, Change({**NOT_BLOCKED, "wake_at": clock_back.soonest(now, delay)}, entries=[told]), now)


def _next_rung(workflow: Workflow, step: Step, came: Failed, again: int, now: datetime) -> Followed:
    _close_step(step, "failed", came.text, now)
    claims.release(workflow.pk, now, [IN_FLIGHT])
    version = workflow.version + 1
    told = entry(workflow, "step.failed", code=came.code, text=came.text)
    remedy = workflow.plan[again]
    if remedy.get("ladder"):
        [effects] = effectiveness.effects_of([workflow], now)
        remedy["verb"] = ladder.next_rung(remedy["ladder"], remedy["verb"], effects)
    changes = {
        **NOT_BLOCKED,
        "plan": workflow.plan,
        "step": again,
        "attempt": workflow.attempt + 1,
        "version": version,
        "wake_at": now + LEASE,
    }
    write(workflow, Change(changes, NodeState.DRAINED, came.text, entries=[told]), now)
    return workflow.pk, version, str(remedy["verb"])


def _repair(workflow: Workflow, step: Step, came: Repair, now: datetime) -> None:
    if workflow.verb == WAIT_REPAIR:  # this step lasts until the ticket is closed
        Step.objects.filter(pk=step.pk).update(text=came.text[:500])
    else:
        _close_step(step, "failed", came.text, now)
    claims.release(workflow.pk, now, [IN_FLIGHT])
    if workflow.verb in REMEDIES:
        effectiveness.record(workflow, Remedy.FAILED, now)
    title = workflow.incident.title if workflow.incident else came.text
    part = came.part or (workflow.incident.device if workflow.incident else "")
    ticket, entries = tickets.open_ticket(
        node=workflow.node,
        incident=workflow.incident,
        workflow_id=workflow.pk,
        title=title,
        reason=came.text,
        part=part,
        evidence=_evidence(workflow),
        now=now,
    )
    changes = {
        "state": WorkflowState.REPAIR,
        "wake_at": None,
        "blocked_code": "ticket",
        "blocked_text": f"Waits for {ticket.label}: {came.text}"[:500],
        "blocked_since": now,
        "blocked_until": None,
    }
    state = NodeState(NodeLifecycle.objects.values_list("state", flat=True).get(node_id=workflow.node_id))
    move = NodeState.AWAITING_REPAIR if (state, NodeState.AWAITING_REPAIR) in NODE_EDGES else None
    entries.append(entry(workflow, "workflow.repair", code=came.code, text=came.text, ticket=ticket.pk))
    write(workflow, Change(changes, move, came.text, entries=entries), now)


def _evidence(workflow: Workflow) -> dict[str, Any]:
    """What a person pastes to a vendor: signals, tries, and what each call came to."""
    signals = (
        Signal.objects.filter(node_id=workflow.node_id)
        .order_by("-opened_at")
        .values("rule", "code", "device", "title", "first_bad_at", "evidence")[:20]
    )
    tries = (
        Step.objects.filter(workflow=workflow).order_by("pk").values("verb", "attempt", "state", "started_at", "text")
    )
    calls = (
        Intent.objects.filter(workflow=workflow)
        .order_by("created_at")
        .values("op_id", "verb", "target", "outcome", "text", "created_at")
    )
    plain = [{key: str(value) for key, value in row.items()} for row in tries]
    acts = [{key: str(value) for key, value in row.items()} for row in calls]
    seen = [{**row, "first_bad_at": str(row["first_bad_at"])} for row in signals]
    tests = validation.evidence(workflow.node_id)
    return {"signals": seen, "steps": plain, "calls": acts, "tests": tests, "boot_id": workflow.node.boot_id}


def _ended(workflow: Workflow, step: Step, came: Ended, now: datetime) -> None:
    _close_step(step, "done" if came.state == "succeeded" else "cancelled", came.text, now)
    claims.release(workflow.pk, now)
    if workflow.state == WorkflowState.BLOCKED:  # what kept it waiting is gone; nothing ends from being blocked
        write(workflow, Change(dict(NOT_BLOCKED)), now)
    changes = {
        **NOT_BLOCKED,
        "state": came.state,
        "wake_at": None,
        "ended_at": now,
        "outcome": came.text[:300],
        "version": workflow.version + 1,
    }
    write(workflow, Change(changes, entries=[entry(workflow, f"workflow.{came.state}", text=came.text)]), now)
    if came.state != WorkflowState.SUCCEEDED:
        return
    answer = validation.not_confirmed(workflow)
    if not answer:
        effectiveness.record(workflow, Remedy.HELD, now)
    Cluster.objects.filter(pk=workflow.cluster_id, half_open=True).update(half_open=False)
    settled = [
        incident.pk
        for incident in Incident.objects.filter(node_id=workflow.node_id, state=Incident.OPEN)
        if not Signal.objects.filter(incident=incident, cleared_at=None).exists()
    ]
    if answer and workflow.incident_id is not None:
        settled = [pk for pk in settled if pk != workflow.incident_id]
        health.resolve_incidents([workflow.incident_id], f"{workflow.label}: {answer}"[:200], now)
    health.resolve_incidents(settled, "Healed by " + workflow.label, now)
