"""Intent rows: written and committed before a side effect, resolved after it.

Decides that at most one unresolved intent exists per BMC, so nobody calls that BMC before the call's deadline or its
resolution. Refuses to resolve an intent twice, and to begin anything disruptive once the kill switch is thrown.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction

from fleet.audit import services as audit
from fleet.lifecycle.fence import LEASE, Change, write
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.policy import services as policy
from fleet.policy.rules import Decision
from fleet.policy.selectors import told
from fleet.ports.power import PowerVerb

BMC_CALL_SECONDS = 6.0
"""The whole session with a BMC, reading identity included."""

DISRUPTING = ("reset", "reset_gpu", "reprovision", "power")
"""The verbs of intents after which a node is not what it was; each is observed before another may follow."""

STOPPABLE = ("evict", "suspend", "ray_drain", "delete", "pause_gpu", *DISRUPTING)
"""What the kill switch forbids to begin. What disrupts nobody or ends safely what was begun is none of it: a hold, a
test, a release, power on, a job that is started again."""

DONE, REFUSED, UNKNOWN, EXPIRED, FAILED = "done", "refused", "unknown", "expired", "failed"


class BmcBusy(Exception):
    """Another call to that BMC may still be under way; `until` says when it can no longer be."""

    def __init__(self, until: datetime) -> None:
        super().__init__(f"busy until {until:%H:%M:%S}")
        self.until = until


class Stopped(Exception):
    """The kill switch was thrown before the act was written down."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.text)
        self.decision = decision


def of(
    workflow: Workflow,
    step: Step,
    verb: str,
    target: str,
    now: datetime,
    *,
    op_id: uuid.UUID | None = None,
    bmc_id: int | None = None,
    before: dict[str, Any] | None = None,
) -> Intent:
    """The row, not written yet."""
    return Intent(
        op_id=op_id or uuid.uuid4(),
        workflow=workflow,
        step=step,
        verb=verb,
        target=target[:300],
        bmc_id=bmc_id,
        call_deadline=now + timedelta(seconds=BMC_CALL_SECONDS) if bmc_id else None,
        before=before or {},
        created_at=now,
    )


def entry(intent: Intent) -> audit.Entry:
    """Its line in the audit, in the transaction that writes it."""
    workflow = intent.workflow
    return audit.Entry(
        actor="muster:worker",
        action=f"intent.{intent.verb}",
        object=f"workflow:{workflow.pk}",
        node=workflow.node.name,
        detail={"op_id": str(intent.op_id), "target": intent.target, "incident": workflow.incident_id},
    )


def begin(
    workflow: Workflow,
    step: Step,
    verb: str,
    target: str,
    now: datetime,
    *,
    op_id: uuid.UUID | None = None,
    bmc_id: int | None = None,
    before: dict[str, Any] | None = None,
    changes: dict[str, Any] | None = None,
    node_state: NodeState | None = None,
    quiet: bool = False,
    done: str = "",
) -> Intent:
    """Write the intent under the fence and commit. Raises Stale, Stopped, or BmcBusy while that BMC's slot is taken.

    `changes` go to the workflow in the same transaction, and `node_state` to the node; `quiet` leaves the audit row
    out (reads of a BMC). `done`: the words of one that is resolved from the start, for its act may be repeated.
    """
    intent = of(workflow, step, verb, target, now, op_id=op_id, bmc_id=bmc_id, before=before)
    if done:
        intent.outcome, intent.text, intent.resolved_at = DONE, done, now
    if bmc_id:
        _free_slot(bmc_id, now)
    try:
        with transaction.atomic():
            if verb in STOPPABLE and not target.startswith(f"{PowerVerb.ON} "):
                _unless_stopped(now)
            intent.save(force_insert=True)
            fields = {"wake_at": now + LEASE, **(changes or {})}
            write(workflow, Change(fields, node_state, entries=[] if quiet else [entry(intent)]), now)
    except IntegrityError as error:
        other = Intent.objects.filter(bmc_id=bmc_id, resolved_at=None).first()
        if bmc_id and other is not None and other.call_deadline:
            raise BmcBusy(other.call_deadline) from error
        raise
    return intent


def _unless_stopped(now: datetime) -> None:
    switch = policy.stopped_or_held_so()
    if switch is not None:
        raise Stopped(told(switch, now))


def seconds_left(intent: Intent, now: datetime) -> float:
    """How much of the call's time is left. None of it is for a process that stood still since the intent: others have
    observed meanwhile and may have sent a call of their own. Nor is any when the clock was set back since."""
    left = (intent.call_deadline - now).total_seconds() if intent.call_deadline else 0.0
    return left if left <= BMC_CALL_SECONDS else 0.0


def late(intent: Intent, now: datetime, seconds: float) -> bool:
    """Did its worker stand still since it was written? Others may have taken over, and be through. Also when the clock
    was set back since."""
    return not 0 <= (now - intent.created_at).total_seconds() <= seconds


def _free_slot(bmc_id: int, now: datetime) -> None:
    """A call whose deadline has passed is over, whatever became of it: its effect must be observed."""
    Intent.objects.filter(bmc_id=bmc_id, resolved_at=None, call_deadline__lt=now).update(
        resolved_at=now, outcome=UNKNOWN, text="The call's deadline passed without an answer."
    )


def resolve(intent: Intent, outcome: str, text: str, now: datetime) -> None:
    """Record what became of the call. Not fenced: what happened has happened, whoever asks."""
    resolve_all([intent.pk], outcome, text, now)


def resolve_all(op_ids: Iterable[uuid.UUID], outcome: str, text: str, now: datetime) -> None:
    """Record that all of them came to the same."""
    fields = {"resolved_at": now, "outcome": outcome, "text": text[:500]}
    Intent.objects.filter(pk__in=list(op_ids), resolved_at=None).update(**fields)


def conclude(intent: Intent, outcome: str, text: str, now: datetime) -> None:
    """Replace an unknown outcome by what was observed since."""
    Intent.objects.filter(pk=intent.pk, outcome=UNKNOWN).update(outcome=outcome, text=text[:500], resolved_at=now)
