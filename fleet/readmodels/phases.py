"""How long each phase of one fault took: from the first bad sample to service.

Decides which spans are counted, and that what is left of the total is waiting. Pure arithmetic over rows already read.
Refuses to guess a phase that has not begun.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from fleet.health.models import Incident
from fleet.lifecycle.models import Step, Workflow
from fleet.readmodels import words


@dataclass(frozen=True, slots=True)
class Phase:
    """`offset` and `share` are percents of the total, for its bar."""

    key: str
    label: str
    seconds: float
    running: bool = False
    offset: float = 0
    share: float = 0

    @property
    def text(self) -> str:
        return words.duration(self.seconds)

    @property
    def x(self) -> float:
        """On a bar 200 wide."""
        return round(self.offset * 2, 1)

    @property
    def width(self) -> float:
        """At least a visible line, never beyond the end."""
        return round(min(max(self.share * 2, 1.5), 200 - self.x), 1)


def phases(incident: Incident | None, workflow: Workflow | None, steps: Sequence[Step], now: datetime) -> list[Phase]:
    """Detect, each verb that has begun, waiting, total; empty without an incident."""
    if incident is None:
        return []
    start = incident.first_bad_at
    end = (workflow.ended_at if workflow else incident.resolved_at) or now
    total = max(0.001, (end - start).total_seconds())
    found = [_phase("detect", _("Detect"), [(start, incident.detected_at)], start, total)]
    for verb in dict.fromkeys(step.verb for step in steps):
        tries = [step for step in steps if step.verb == verb]
        spans = [(step.started_at, over_at(step) or end) for step in tries]
        running = any(over_at(step) is None for step in tries) and (workflow is None or workflow.ended_at is None)
        found.append(_phase(verb, words.word(words.VERBS, verb), spans, start, total, running))
    rest = total - sum(phase.seconds for phase in found)
    if workflow is not None and rest >= 1:
        found.append(Phase("wait", _("Waiting"), rest))
    if workflow is not None:
        found.append(Phase("total", _("Total"), total, running=workflow.ended_at is None, share=100))
    return found


def over_at(step: Step) -> datetime | None:
    """When a try was over. One that waits for people has its act behind it and still runs."""
    return None if step.state == "running" else step.ended_at


def _phase(
    key: str,
    label: str,
    spans: Sequence[tuple[datetime, datetime]],
    start: datetime,
    total: float,
    running: bool = False,
) -> Phase:
    seconds = sum(max(0.0, (end - begin).total_seconds()) for begin, end in spans)
    offset = max(0.0, (spans[0][0] - start).total_seconds()) / total * 100
    return Phase(key, label, seconds, running, min(99.5, offset), min(100.0, seconds / total * 100))
