"""An autoscaler that takes workers back and asks for them again.

Decides over a window of the longer of ten minutes and five idle time-outs: three alternations of a group's replicas, or
three workers that lived shorter than two idle time-outs while the autoscaler named workers to delete and a placement
group waited all the time. Refuses to call one scaling up and down an oscillation, and to remember more than the window:
after a restart of its observer it begins anew. Times come from who watches.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.rayfacts import workers
from fleet.ports.ray import RayFacts

WINDOW, IDLES, TIMES, LIVES = timedelta(minutes=10), 5, 3, 2
MOST = 256  # looks kept for one gang: the least that a window of the observer's period needs, many times over
REPAIRED = (2, 45)
"""The first Ray whose autoscaler does not ask again for what it took back (ray#50783, fixed by #51122 and #51570)."""


@dataclass(slots=True)
class _Past:
    replicas: dict[str, deque[tuple[datetime, int]]] = field(default_factory=lambda: defaultdict(_looks))
    lives: deque[tuple[datetime, datetime, str]] = field(
        default_factory=lambda: deque(maxlen=MOST)
    )  # made, gone, group
    waits: deque[tuple[datetime, bool]] = field(default_factory=lambda: deque(maxlen=MOST))
    deletes: deque[datetime] = field(default_factory=lambda: deque(maxlen=MOST))


def _looks() -> deque[tuple[datetime, int]]:
    return deque(maxlen=MOST)


class Swings:
    """What was seen of each gang's scaling lately. Fed by one thread; gang keys as everywhere."""

    def __init__(self) -> None:
        self._past: dict[str, _Past] = defaultdict(_Past)

    def scaled(self, gang: str, facts: RayFacts, at: datetime) -> None:
        """One look at the spec: only changes of a group's replicas are kept."""
        past = self._past[gang]
        for group in workers(facts):
            seen = past.replicas[group.name]
            if not seen or seen[-1][1] != group.replicas:
                seen.append((at, group.replicas))
        if any(group.to_delete for group in facts.groups):
            past.deletes.append(at)

    def worker_gone(self, gang: str, group: str, created_at: datetime, gone_at: datetime) -> None:
        self._past[gang].lives.append((created_at, gone_at, group))

    def placement(self, gang: str, waits: bool, at: datetime) -> None:
        """Whether any placement group waited at that look. Looks alike are kept once, the first."""
        seen = self._past[gang].waits
        if not seen or seen[-1][1] != waits:
            seen.append((at, waits))

    def forget(self, gang: str) -> None:
        self._past.pop(gang, None)

    def conditions(self, gang: str, facts: RayFacts, now: datetime) -> Iterator[Condition]:
        if not facts.autoscaling:
            return
        yield from known_loop(gang, facts)
        past = self._past.get(gang) or _Past()
        for group in workers(facts):
            idle = timedelta(seconds=facts.idle_seconds if group.idle_seconds is None else group.idle_seconds)
            since = now - max(WINDOW, IDLES * idle)
            times = _alternations(past.replicas.get(group.name, ()), since)
            if times >= TIMES:
                yield found(
                    "autoscaler_swings", gang, "warning", group.name, times=times, minutes=_minutes(now - since)
                )
            short = [
                (made, gone)
                for made, gone, name in past.lives
                if name.lower() == group.name.lower() and gone >= since and gone - made < LIVES * idle
            ]
            if len(short) >= TIMES and _throughout(past, min(short)[0], max(gone for _, gone in short), since):
                yield found("autoscaler_churns", gang, "warning", group.name, times=len(short),
                            minutes=_minutes(now - since))  # fmt: skip


def known_loop(gang: str, facts: RayFacts) -> Iterator[Condition]:
    version = _version(facts.version)
    if facts.autoscaling and version is not None and version < REPAIRED:
        yield found("autoscaler_known_loop", gang, "notice", version=facts.version)


def _alternations(seen: deque[tuple[datetime, int]] | tuple[()], since: datetime) -> int:
    """Changes in the window that go against the change before them."""
    changes = [(at, after > before) for (_, before), (at, after) in pairwise(seen) if at >= since]
    return sum(one[1] != other[1] for one, other in pairwise(changes))


def _throughout(past: _Past, begun: datetime, ended: datetime, since: datetime) -> bool:
    """Workers were named for deletion, and every look from the first making to the last end saw a group wait."""
    before = [waits for at, waits in past.waits if at <= max(begun, since)]
    within = [waits for at, waits in past.waits if max(begun, since) < at <= ended]
    looks = [*before[-1:], *within] if before else within
    return bool(looks) and all(looks) and any(at >= since for at in past.deletes)


def _version(text: str) -> tuple[int, int] | None:
    parts = text.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _minutes(span: timedelta) -> int:
    return round(span.total_seconds() / 60)
