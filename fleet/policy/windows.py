"""Freezes and openings: times in which disruption is forbidden, or allowed at all.

Decides on wall time in the window's own zone, so that "02:00 to 04:00 in Seoul" means that on every day of the year.
Where a clock jumps, a window whose start does not exist begins with the jump, and one whose start exists twice begins
with the first. What lasts across a jump ends by real minutes or by the wall: an opening by what is sooner, so that it
reaches into no hour that it does not name, a freeze by what is later, so that days of freeze leave no gap. Pure.
Refuses an unknown zone instead of guessing UTC.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fleet.policy.rules import ALLOWED, Decision

FREEZE, OPENING = "freeze", "opening"
LOOK_AHEAD = 8
"""Days: a weekly window comes within a week, and one more for its zone."""
MOST_MINUTES = 7 * 24 * 60


@dataclass(frozen=True, slots=True)
class Window:
    """`days` are ISO weekdays (Monday 1). `minutes` is at most a week. `pool` "" means every pool."""

    kind: str
    name: str
    zone: str
    days: frozenset[int]
    start: time
    minutes: int
    pool: str = ""
    begins: datetime | None = None
    ends: datetime | None = None
    urgent_passes: bool = False

    def problem(self) -> str:
        """What makes it unusable, as a sentence; "" for a good one."""
        try:
            ZoneInfo(self.zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return f"There is no time zone {self.zone!r}."
        if not 1 <= self.minutes <= MOST_MINUTES:
            return "A window lasts from one minute to seven days."
        if not self.days or not self.days <= set(range(1, 8)):
            return "Days are weekdays from 1 (Monday) to 7."
        if self.begins and self.ends and self.ends <= self.begins:
            return "It ends before it begins."
        return ""

    def spans(self, now: datetime) -> list[tuple[datetime, datetime]]:
        """Occurrences that may hold `now` or come after it, in order."""
        zone = ZoneInfo(self.zone)
        today = now.astimezone(zone).date()
        found = []
        for offset in range(-8, LOOK_AHEAD + 1):
            day = today + timedelta(days=offset)
            if day.isoweekday() not in self.days:
                continue
            wall = datetime.combine(day, self.start, zone)
            begins = _real(wall)
            ends = self._end(wall, begins)
            begins, ends = max(begins, self.begins or begins), min(ends, self.ends or ends)
            if begins < ends and ends > now:
                found.append((begins, ends))
        return sorted(found)

    def _end(self, wall: datetime, begins: datetime) -> datetime:
        """Of the occurrence that is to begin at `wall` and does at `begins`. What is added to a wall time stays one."""
        lasts = timedelta(minutes=self.minutes)
        if self.kind == FREEZE:
            return max(begins + lasts, *((wall + lasts).replace(fold=fold).astimezone(UTC) for fold in (0, 1)))
        return min(begins + lasts, _real(begins.astimezone(wall.tzinfo) + lasts))

    def until(self, now: datetime) -> datetime | None:
        """The end of the occurrence that holds `now`, touching ones taken together; None outside."""
        end: datetime | None = None
        for begins, ends in self.spans(now):
            if begins <= (end or now):
                end = max(end or ends, ends)
        return end

    def next_start(self, now: datetime) -> datetime | None:
        return next((begins for begins, _ in self.spans(now) if begins > now), None)


def _real(wall: datetime) -> datetime:
    """The moment of a wall time. One that a clock jumps over becomes the moment of the jump."""
    after = wall.replace(fold=0).astimezone(UTC)
    if after.astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(tzinfo=None):
        return after
    before, offset = wall.replace(fold=1).astimezone(UTC), after.astimezone(wall.tzinfo).utcoffset()
    while after - before > timedelta(seconds=1):
        middle = before + (after - before) / 2
        if middle.astimezone(wall.tzinfo).utcoffset() == offset:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)


def decide(windows: Sequence[Window], pool: str, urgent: bool, now: datetime) -> Decision:
    """May a node of `pool` be disrupted now? A freeze wins over an opening."""
    mine = [window for window in windows if window.pool in ("", pool)]
    for window in mine:
        end = window.until(now) if window.kind == FREEZE else None
        if end is not None and not (urgent and window.urgent_passes):
            return Decision("freeze", f"The freeze {window.name} lasts until {_told(end, window.zone)}.", end)
    openings = [window for window in mine if window.kind == OPENING and not (urgent and window.urgent_passes)]
    if not openings or any(window.until(now) is not None for window in openings):
        return ALLOWED
    if any(window.kind == OPENING and window.urgent_passes and urgent for window in mine):
        return ALLOWED
    starts = [(start, window) for window in openings if (start := window.next_start(now)) is not None]
    if not starts:
        return Decision("window", f"The window {openings[0].name} is over and does not come again.", None)
    start, window = min(starts, key=lambda found: found[0])
    return Decision("window", f"Outside the window {window.name}; it opens {_told(start, window.zone)}.", start)


def _told(at: datetime, zone: str) -> str:
    return f"{at.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"
