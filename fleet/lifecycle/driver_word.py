"""The driver's own request (Xid 154) for a node that is already held.

Decides that a fresh fatal Xid is held at once while the choice of the remediation waits a few seconds for the driver
to say what it needs, and that a plan whose incident came to ask for something else is exchanged as long as nothing
disruptive has begun. Refuses to touch a plan from its remediation on, and to make the hold wait.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health.models import Incident, Signal
from fleet.health.rules.xid import ASKED_LATER
from fleet.inventory.models import Mode
from fleet.lifecycle import shelf
from fleet.lifecycle.cases import FIELDS, case_of, case_of_values
from fleet.lifecycle.intents import DISRUPTING
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, WorkflowState
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.lifecycle.outcomes import Blocked
from fleet.lifecycle.playbooks import DRAIN, FENCE, HOLD, REMEDIES, WAIT_REPAIR, Book, Case, plan_for
from fleet.policy import services as claims
from fleet.policy.rules import IN_FLIGHT
from fleet.tickets import services as tickets

PATIENCE = timedelta(seconds=8)
"""Drivers from R565 on raise 154 within seconds of most fatal Xids; 5 to 10 s is our choice."""
PLANNED = (*OPEN_WORKFLOW_STATES, WorkflowState.PLANNED)
FATAL = frozenset(f"xid-{code}" for code in ASKED_LATER)


def awaited(workflow: Workflow, now: datetime) -> Blocked | None:
    """A wait before the remediation of a fresh Xid whose 154 has not come."""
    incident = workflow.incident
    if workflow.verb not in (*REMEDIES, WAIT_REPAIR) or workflow.attempt > 1 or incident is None:
        return None
    left = (incident.detected_at + PATIENCE - now).total_seconds()
    if incident.cause not in FATAL or not 0 < left <= PATIENCE.total_seconds():  # more: the clock was set back
        return None
    if Signal.objects.filter(incident=incident, evidence__has_key="recovery_line").exists():
        return None
    until = incident.detected_at + PATIENCE
    text = "Held. The driver may still say what it needs (Xid 154); what follows the hold is chosen then."
    return Blocked("driver_word", text, left, until)


def exchange(
    incident_ids: Iterable[int],
    now: datetime,
    by: str,
    recurring: Callable[[Sequence[Incident], datetime], set[tuple[int, str]]],
) -> list[audit.Entry]:
    """New plans for workflows whose incident asks for another playbook now; the caller records the entries.

    A workflow that a worker is writing just now is left to the next look: the planner asks again with every tick.
    """
    book = shelf.book()
    changing = _changing(incident_ids, book)
    if not changing:
        return []
    rows = list(
        Workflow.objects.select_for_update(of=("self",), skip_locked=True)
        .select_related("node__pool", "node__cluster", "incident")
        .filter(pk__in=changing, state__in=PLANNED)
        .order_by("pk")
    )
    repeated = recurring([w.incident for w in rows if w.incident is not None], now)
    changed: list[Workflow] = []
    entries: list[audit.Entry] = []
    for workflow in rows:
        incident = workflow.incident
        if incident is None or not _unbegun(workflow) or (workflow.node_id, incident.cause) in repeated:
            continue
        chosen = plan_for(case_of(incident, workflow.node), book)
        if chosen.playbook in ("", workflow.playbook):
            continue
        detail = {"from": workflow.playbook, "to": chosen.playbook, "action_class": incident.action_class}
        entries.append(
            audit.Entry(by, "workflow.exchange", f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail)
        )
        workflow.playbook, workflow.plan = chosen.playbook, chosen.as_json()
        workflow.attempts = chosen.attempts
        workflow.version += 1  # whoever works on the old plan writes nothing any more
        workflow.wake_at = now if workflow.wake_at is not None else None
        changed.append(workflow)
    Workflow.objects.bulk_update(changed, ["playbook", "plan", "attempts", "version", "wake_at"])
    for workflow in changed:
        Step.objects.filter(workflow=workflow, index=workflow.step, ended_at=None).update(verb=workflow.verb)
        claims.release(workflow.pk, now, [IN_FLIGHT])
        publish(workflow.cluster_id, [Notice("workflow", str(workflow.pk), workflow.node.name)], now)
    return entries


def _changing(incident_ids: Iterable[int], book: Book) -> list[int]:
    """Workflows whose case is another playbook's now. It is asked of every open one with every look: one query, and
    no row is locked or loaded for those that stay as they are, which are nearly all."""
    chosen: dict[Case, str] = {}
    found = []
    rows = Workflow.objects.filter(incident_id__in=list(incident_ids), state__in=PLANNED)
    for pk, playbook, *values in rows.values_list("pk", "playbook", *FIELDS):
        case = case_of_values(tuple(values))
        if case not in chosen:
            chosen[case] = plan_for(case, book).playbook
        if chosen[case] not in ("", playbook):
            found.append(pk)
    return found


def _unbegun(workflow: Workflow) -> bool:
    """Nothing of its remediation has begun: neither a reset was intended nor a ticket opened."""
    if workflow.verb in (HOLD, DRAIN):
        return True
    if (
        workflow.verb not in (*REMEDIES, FENCE, WAIT_REPAIR)
        or workflow.attempt > 1
        or workflow.state == WorkflowState.REPAIR
    ):
        return False
    return not Intent.objects.filter(workflow=workflow, verb__in=DISRUPTING).exists()


def ask_people(incident_ids: Iterable[int], cluster_id: int, now: datetime) -> list[audit.Entry]:
    """Tickets for incidents that ask for a repair beside running work: no hold, no drain."""
    rows = (
        Incident.objects.filter(
            Q(muted_until=None) | Q(muted_until__lte=now),
            Q(node__pool=None) | Q(node__pool__kind="bare_metal"),
            pk__in=list(incident_ids), cluster_id=cluster_id, state=Incident.OPEN, action_class="ticket",
            node__managed=True, node__gone_at=None, tickets=None,
        )
        .exclude(mode=Mode.OBSERVE)  # of its rule: what it asks of people is only shown
        .select_related("node")
        .order_by("pk")
    )  # fmt: skip
    entries: list[audit.Entry] = []
    for incident in rows:
        assert incident.node is not None  # noqa: S101  the filter says so, for the type checker
        _, told = tickets.open_ticket(
            node=incident.node, incident=incident, workflow_id=None, title=incident.title, part=incident.device,
            reason="It can be mended while the node works.", evidence=incident.evidence, now=now,
        )  # fmt: skip
        entries += told
    return entries
