"""Everything the pages of one incident and one ticket show.

Decides what belongs to an incident: its signals with their evidence, its workflows and its tickets. Refuses rows of a
cluster that the reader may not see: they do not exist for him.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from fleet.health.models import Incident, Signal
from fleet.lifecycle.models import Workflow
from fleet.readmodels.timeline import TITLE
from fleet.tickets.models import Ticket

COURSES = "traces"  # drawn, not printed
Visible = frozenset[str] | None


@dataclass(slots=True)
class IncidentPage:
    incident: Incident
    signals: list[Signal]
    workflows: list[Workflow]
    tickets: list[Ticket]


def read_incident(pk: int, visible: Visible) -> IncidentPage | None:
    """Four queries."""
    rows = Incident.objects.select_related("cluster", "node")
    if visible is not None:
        rows = rows.filter(cluster__name__in=visible)
    incident = rows.filter(pk=pk).first()
    if incident is None:
        return None
    return IncidentPage(
        incident,
        list(Signal.objects.filter(incident=incident).select_related("node").order_by("-opened_at", "-pk")[:200]),
        list(Workflow.objects.filter(incident=incident).order_by("-created_at")[:50]),
        list(Ticket.objects.filter(incident=incident).order_by("-opened_at")[:50]),
    )


def read_ticket(pk: int, visible: Visible) -> Ticket | None:
    """One query."""
    rows = Ticket.objects.select_related("cluster", "node", "incident")
    if visible is not None:
        rows = rows.filter(cluster__name__in=visible)
    return rows.filter(pk=pk).first()


def evidence_text(evidence: dict[str, Any]) -> str:
    """Evidence as text to paste: raw lines as they came, everything else as sorted `key: value`."""
    lines: list[str] = []
    for key in sorted(evidence.keys() - {TITLE, COURSES}):
        value = evidence[key]
        if isinstance(value, list):
            lines.append(f"{key}:")
            lines += [f"  {_flat(item)}" for item in value]
        elif isinstance(value, dict):
            lines.append(f"{key}:")
            lines += [f"  {name}: {_flat(item)}" for name, item in sorted(value.items())]
        else:
            lines.append(f"{key}: {_flat(value)}")
    return "\n".join(lines)


def _flat(value: Any) -> str:
    """One line; a row of facts as `name value` pairs without the empty ones, its times to the second."""
    if isinstance(value, dict):
        told = (
            (name, item) for name, item in sorted(value.items()) if name != TITLE and item not in (None, "", [], {})
        )
        return ", ".join(
            f"{name} {_whole_seconds(item) if name.endswith('_at') else _flat(item)}" for name, item in told
        )
    return value if isinstance(value, str) else orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()


def _whole_seconds(value: Any) -> str:
    return str(value)[:19].replace("T", " ")
