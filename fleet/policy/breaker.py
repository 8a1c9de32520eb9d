"""When too much happens at once to go on without a person.

Decides, from counts that come out of the database, whether the breaker trips: too many nodes newly held within the
window, or most remedies of the last hour in vain. Pure. Refuses to trip in a fleet so small that a few faults are a
large part of it (`least`), and never closes itself: only a person does, with a reason.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from fleet.policy.rules import span


@dataclass(frozen=True, slots=True)
class TripRule:
    """Percent of nodes and of remedies; windows in seconds. The defaults lie far below the half that peers use."""

    enabled: bool = True
    percent: float = 25.0
    least: int = 20
    window: float = 600.0
    failed: int = 6
    failed_percent: float = 60.0
    failed_window: float = 3600.0
    cooldown: float = 300.0

    def holds_allowed(self, nodes: int) -> int:
        """So many nodes may be newly held within the window among `nodes` managed ones."""
        return max(self.least, math.floor(nodes * self.percent / 100))


@dataclass(frozen=True, slots=True)
class Counts:
    """`held`: distinct nodes newly held in the window; `ended`, `failed`: remedies in theirs."""

    nodes: int
    held: int
    ended: int = 0
    failed: int = 0


def trips(rule: TripRule, counts: Counts, more: int = 0) -> str:
    """ "" while it stays closed, else the sentence that says what tripped it; `more` holds are about to be granted."""
    if not rule.enabled:
        return ""
    allowed = rule.holds_allowed(counts.nodes)
    if counts.held + more > allowed:
        within = span(timedelta(seconds=rule.window))
        return (
            f"{counts.held + more} of {counts.nodes} nodes asked to be held within {within}; {allowed} may. "
            "So many faults at once may be one fault, or a detector that errs."
        )
    if counts.failed >= rule.failed and counts.failed * 100 >= counts.ended * rule.failed_percent:
        within = span(timedelta(seconds=rule.failed_window))
        return f"{counts.failed} of {counts.ended} remedies were in vain within {within}."
    return ""
