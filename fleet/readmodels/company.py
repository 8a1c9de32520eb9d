"""The nodes that share an incident, and what counts against one node.

Decides what is read for the score of a repeat offender: its own incidents, failed workflows and tickets. Refuses to
count what many nodes shared, and to act: the score orders the attention of people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Exists, OuterRef

from fleet.health import correlation_again as again
from fleet.health.correlation_again import Offence, Weighed
from fleet.health.models import Incident, IncidentMember, Signal
from fleet.inventory.models import Node
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

MEMBERS, LINES, ROWS = 1000, 12, 500


def members_of(incident: Incident) -> list[IncidentMember]:
    """Those that still show it first; each with `still`. One query."""
    signs = Signal.objects.filter(incident=OuterRef("incident"), node=OuterRef("node"), cleared_at=None)
    rows = IncidentMember.objects.filter(incident=incident).select_related("node")
    return list(rows.annotate(still=Exists(signs)).order_by("-still", "node__name")[:MEMBERS])


@dataclass(frozen=True, slots=True)
class Record:
    score: float
    lines: list[Weighed]
    more: int
    repaired_at: datetime | None


def record_of(node: Node, now: datetime) -> Record:
    """The score and its evidence, the heaviest first. Four queries."""
    since = now - again.REACH
    repaired = (
        Ticket.objects.filter(node=node, state=Ticket.CLOSED)
        .order_by("-closed_at")
        .values_list("closed_at", flat=True)
        .first()
    )
    incidents = Incident.objects.filter(node=node, part_of=None, detected_at__gte=since).order_by("-detected_at")
    failed = Workflow.objects.filter(node=node, state=WorkflowState.FAILED, ended_at__gte=since).order_by("-ended_at")
    tickets = Ticket.objects.filter(node=node, opened_at__gte=since).order_by("-opened_at")
    offences = [
        Offence("incident", i.pk, i.title, i.detected_at, again.WEIGHTS.get(i.severity, 0.0)) for i in incidents[:ROWS]
    ]
    offences += [
        Offence("workflow", w.pk, w.outcome, w.ended_at or w.created_at, again.FAILED_WEIGHT) for w in failed[:ROWS]
    ]
    offences += [Offence("ticket", t.pk, t.title, t.opened_at, again.REPAIR_WEIGHT) for t in tickets[:ROWS]]
    total, weighed = again.score(offences, now, repaired)
    return Record(total, weighed[:LINES], max(0, len(weighed) - LINES), repaired)
