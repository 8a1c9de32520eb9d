"""The nodes that share an incident, and what counts against one node.

Decides what is read for the score of a repeat offender: its own incidents, failed workflows and tickets. Refuses to
count what many nodes shared, and to act: the score orders the attention of people.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Exists, Max, OuterRef

from fleet.health import correlation_again as again
from fleet.health.correlation_again import Offence, Weighed
from fleet.health.models import Incident, IncidentMember, Signal
from fleet.inventory.models import Node
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket

MEMBERS, LINES, ROWS = 1000, 12, 500
OFFENDERS, FEW_LINES, FLEET_ROWS = 100, 3, 50_000


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


@dataclass(frozen=True, slots=True)
class Offender:
    """A node of the fleet-wide list, with the heaviest of what counts against it."""

    node: Node
    record: Record


def record_of(node: Node, now: datetime) -> Record:
    """The score and its evidence, the heaviest first. Four queries."""
    offences, repaired = _offences({"node": node}, now, ROWS)
    return _record(offences.get(node.pk, []), now, repaired.get(node.pk), LINES)


def offenders(visible: frozenset[str] | None, now: datetime) -> list[Offender]:
    """The nodes of the clusters `visible` (None: all) that something counts against, the worst first. Five queries."""
    of: dict[str, Any] = {"node__isnull": False, "node__gone_at": None, "node__cluster__removed_at": None}
    if visible is not None:
        of["node__cluster__name__in"] = visible
    offences, repaired = _offences(of, now, FLEET_ROWS)
    records = {pk: _record(some, now, repaired.get(pk), FEW_LINES) for pk, some in offences.items()}
    worst = sorted((pk for pk, found in records.items() if found.lines), key=lambda pk: (-records[pk].score, pk))
    nodes = Node.objects.select_related("cluster", "lifecycle", "verdict_row").in_bulk(worst[:OFFENDERS])
    return [Offender(nodes[pk], records[pk]) for pk in worst[:OFFENDERS] if pk in nodes]


def _record(offences: list[Offence], now: datetime, repaired: datetime | None, lines: int) -> Record:
    total, weighed = again.score(offences, now, repaired)
    return Record(total, weighed[:lines], max(0, len(weighed) - lines), repaired)


def _offences(of: dict[str, Any], now: datetime, most: int) -> tuple[dict[int, list[Offence]], dict[int, datetime]]:
    """What counts against each of the nodes chosen by `of`, at most the newest of each kind; and the last repairs."""
    since = now - again.REACH
    found: dict[int, list[Offence]] = {}
    incidents = Incident.objects.filter(**of, part_of=None, detected_at__gte=since).order_by("-detected_at")
    told = incidents.values_list("node_id", "pk", "title", "detected_at", "severity")
    for node, pk, title, at, severity in told[:most]:
        found.setdefault(node, []).append(Offence("incident", pk, title, at, again.WEIGHTS.get(severity, 0.0)))
    failed = Workflow.objects.filter(**of, state=WorkflowState.FAILED, ended_at__gte=since).order_by("-ended_at")
    for node, pk, outcome, ended in failed.values_list("node_id", "pk", "outcome", "ended_at")[:most]:
        found.setdefault(node, []).append(Offence("workflow", pk, outcome, ended or now, again.FAILED_WEIGHT))
    tickets = Ticket.objects.filter(**of, opened_at__gte=since).order_by("-opened_at")
    for node, pk, title, at in tickets.values_list("node_id", "pk", "title", "opened_at")[:most]:
        found.setdefault(node, []).append(Offence("ticket", pk, title, at, again.REPAIR_WEIGHT))
    closed = Ticket.objects.filter(**of, state=Ticket.CLOSED).exclude(closed_at=None).values("node_id")
    repaired = dict(closed.annotate(last=Max("closed_at")).values_list("node_id", "last"))
    return found, repaired
