"""How much time a step has seen pass, whatever the wall clock was set to meanwhile.

Decides that between two looks of a step no more time counts than it meant to wait and a little: when the clock is set
forward, or nobody worked for a while, a machine that boots has not had that time to come back, and a node that is
watched was not watched. Refuses to shorten a patience by what nobody saw; it may last longer for that.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import F, JSONField, Value
from django.db.models.expressions import CombinedExpression

from fleet.lifecycle import grants
from fleet.lifecycle.models import Step
from fleet.lifecycle.outcomes import Blocked, Outcome, Wait
from fleet.lifecycle.playbooks import CONFIRM, DISRUPTIVE, DRAIN, SOAK, VALIDATE

TIMED = frozenset({DRAIN, CONFIRM, *DISRUPTIVE, VALIDATE, SOAK})
SLACK = 30.0
"""Seconds that a look may be late and still count: workers have other things to do."""
MOST = 20  # gaps that are kept apart


def arrive(step: Step, now: datetime) -> None:
    """A look begins: what lies between it and the one before, beyond what was meant, was seen by nobody."""
    looked, planned = step.memo.get("looked"), step.memo.get("planned")
    if looked is not None and planned is not None:
        _note(step, now, now.timestamp() - float(looked) - float(planned))


def leave(step: Step, came: Outcome, began: tuple[datetime, float], ended: tuple[datetime, float]) -> None:
    """The look ends. `began` and `ended`: wall time, and monotonic time, which no one can set."""
    if step.verb not in TIMED or not isinstance(came, Wait | Blocked):
        return
    _note(step, ended[0], (ended[0] - began[0]).total_seconds() - (ended[1] - began[1]))
    guarded = isinstance(came, Blocked) and came.code in grants.GUARD_CODES
    kept = {"looked": ended[0].timestamp(), "planned": None if guarded else came.seconds}
    kept |= {"unseen": step.memo["unseen"]} if "unseen" in step.memo else {}
    step.memo = {**step.memo, **kept}
    added = CombinedExpression(F("memo"), "||", Value(kept, JSONField()))  # what people wrote there meanwhile stays
    Step.objects.filter(pk=step.pk).update(memo=added)


def lost(step: Step, since: float) -> float:
    """Seconds after that time (a timestamp) that were seen by nobody."""
    return sum(float(seconds) for end, seconds in step.memo.get("unseen", ()) if float(end) > since)


def _note(step: Step, now: datetime, late: float) -> None:
    if late > SLACK:
        gaps = [*step.memo.get("unseen", ()), [now.timestamp(), late]]
        if len(gaps) > MOST:  # the two oldest as one
            gaps = [[gaps[1][0], gaps[0][1] + gaps[1][1]], *gaps[2:]]
        step.memo = {**step.memo, "unseen": gaps}
