"""What a table row or a CSV line says about a node.

Decides the sentence of its next act and who acts. Refuses to decide anything about the node itself.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from django.utils.translation import gettext as _

from dashboard import spans
from dashboard.words import VERB_NEXT, VERB_WORD
from fleet.readmodels import reasons
from fleet.readmodels.fleet_map import PLANNED, NodeRow

RISKY = ("=", "+", "-", "@", "\t", "\r")


def next_act(row: NodeRow) -> str:
    """What happens next, in words; a plan of observe mode says `would`."""
    if row.workflow_state == PLANNED:
        verbs = ", ".join(str(VERB_WORD.get(verb, verb)) for verb in row.verbs)
        return _("Would do: %(verbs)s") % {"verbs": verbs}
    if row.workflow_state == "waiting":
        return _("Waits for a person's approval")
    if row.workflow_state == "repair":
        return _("People repair it; closing the ticket starts the validation")
    if row.blocked_text:
        return reasons.in_readers_words(row.blocked_text)
    if row.workflow is not None:
        return str(VERB_NEXT.get(row.verb, row.verb))
    if row.verdict in ("unknown", "lost"):
        return _("Nothing is done without fresh data") if row.verdict == "unknown" else _("Nothing is planned")
    if row.unschedulable:
        return _("Waits for whoever holds it") if row.foreign_hold else _("Held until it is released")
    return "" if row.verdict == "healthy" else _("Watched; nothing is planned")


def actor(row: NodeRow) -> str:
    if row.workflow is not None and row.workflow_state != PLANNED:
        return "Muster" if row.state_by.startswith("muster") or not row.state_by else row.state_by
    if row.foreign_hold:
        return _("others")
    if row.state_by.startswith("muster"):
        return "Muster" if row.state != "in_service" else ""
    return row.state_by


def cell(value: object) -> str:
    """A CSV cell that no spreadsheet takes for a formula."""
    text = "" if value is None else str(value)
    return f"'{text}" if text.startswith(RISKY) else text


def as_csv(some: Iterable[NodeRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(
        [
            "node",
            "cluster",
            "pool",
            "rack",
            "leaf",
            "verdict",
            "state",
            "held",
            "why",
            "since",
            "by",
            "next",
            "workflow",
        ]
    )
    for row in some:
        writer.writerow(
            [
                cell(value)
                for value in (
                    row.name,
                    row.cluster,
                    row.pool,
                    row.rack,
                    row.leaf,
                    row.verdict,
                    row.state,
                    "yes" if row.held else "no",
                    row.why,
                    spans.iso(row.since) if row.since else "",
                    actor(row),
                    next_act(row),
                    row.workflow,
                )
            ]
        )
    return out.getvalue()
