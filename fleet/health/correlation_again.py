"""What it means that a fault comes back.

Decides when a flapping fault stays open (damping), when a recurring one is for people (escalation), and how much a node
offends (a score that decays). Pure. Refuses to count one burst as many times.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

FLAPS, FLAP_WINDOW, QUIET = 3, timedelta(hours=1), timedelta(minutes=30)
RECURS, RECUR_WINDOW, BURST = 5, timedelta(hours=24), timedelta(minutes=3)
HALF_LIFE = timedelta(days=14)
REACH = 6 * HALF_LIFE
"""What is older weighs less than 2 % and is not read."""
WEIGHTS = {"unhealthy": 1.0, "degraded": 0.3}
FAILED_WEIGHT, REPAIR_WEIGHT = 2.0, 1.0


def bursts(times: Iterable[datetime]) -> list[datetime]:
    """The beginning of each burst: what follows another within three minutes is part of it."""
    begun: list[datetime] = []
    last: datetime | None = None
    for at in sorted(times):
        if last is None or at - last > BURST:
            begun.append(at)
        last = at
    return begun


def held_open_until(opened: Iterable[datetime], last_cleared: datetime, now: datetime) -> datetime | None:
    """Until when a flapping fault stays open, or None: it did not flap, or has been quiet for long enough."""
    times = sorted(opened)
    recent = [at for at in times if times and times[-1] - at <= FLAP_WINDOW]
    until = last_cleared + QUIET
    return until if len(recent) >= FLAPS and now < until else None


def recurs(opened: Iterable[datetime], now: datetime) -> bool:
    """Has the same fault come often enough within a day that another remediation of the same kind is no use?"""
    return len(bursts(at for at in opened if now - RECUR_WINDOW <= at <= now)) >= RECURS


@dataclass(frozen=True, slots=True)
class Offence:
    """One thing that counts against a node: what, when, how much then."""

    kind: str  # incident, workflow, ticket
    ref: int
    text: str
    at: datetime
    weight: float


@dataclass(frozen=True, slots=True)
class Weighed:
    offence: Offence
    share: float


def decayed(weight: float, age: timedelta) -> float:
    """Half of it after each half-life; nothing grows by being in the future."""
    return float(weight * 0.5 ** (max(age, timedelta(0)) / HALF_LIFE))


def score(
    offences: Sequence[Offence], now: datetime, repaired_at: datetime | None = None
) -> tuple[float, list[Weighed]]:
    """The score and what it is made of, the heaviest first. What came before the last repair does not count."""
    counted = [
        Weighed(offence, decayed(offence.weight, now - offence.at))
        for offence in offences
        if repaired_at is None or offence.at > repaired_at
    ]
    counted.sort(key=lambda weighed: (-weighed.share, -weighed.offence.ref))
    return sum(weighed.share for weighed in counted), counted
