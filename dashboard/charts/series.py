"""Lines of a chart out of stored rows.

Decides which GPU is told apart (the faulty one), what stands for the others (their mean), and that a gap stays a gap.
Pure. Refuses to draw a line over minutes without a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from fleet.readmodels.node_page import NodePage

GAP = timedelta(minutes=3)
Points = list[tuple[datetime, float | None]]


@dataclass(frozen=True, slots=True)
class Kind:
    key: str  # in the history
    title: str | Promise
    unit: str
    scale: float = 1
    of_ports: bool = False


KINDS: dict[str, Kind] = {
    "power": Kind("gpu_power", _("GPU power"), "W"),
    "clock": Kind("gpu_clock", _("SM clock"), "MHz"),
    "temp": Kind("gpu_temp", _("GPU temperature"), "°C"),
    "util": Kind("gpu_util", _("GPU utilisation"), "%"),
    "ib": Kind("ib_rx", _("InfiniBand"), "GB/s", 1e-9, True),
}


@dataclass(slots=True)
class Lines:
    """`faulty` is the index told apart, None if no GPU is; `rest` is the mean of the others."""

    faulty: int | None
    own: Points
    rest: Points

    @property
    def empty(self) -> bool:
        return not any(value is not None for _at, value in (*self.own, *self.rest))

    @property
    def last_own(self) -> tuple[datetime, float] | None:
        return _last(self.own)

    @property
    def last_rest(self) -> tuple[datetime, float] | None:
        return _last(self.rest)


def _last(points: Points) -> tuple[datetime, float] | None:
    for at, value in reversed(points):
        if value is not None:
            return at, value
    return None


def faulty_index(page: NodePage) -> int | None:
    """The first GPU that is not healthy, if only some are not."""
    bad = [gpu.index for gpu in page.gpus if gpu.verdict not in ("healthy", "unknown")]
    return bad[0] if bad and len(bad) < len(page.gpus) else None


def lines(kind: Kind, page: NodePage) -> Lines:
    faulty = None if kind.of_ports else faulty_index(page)
    own: Points = []
    rest: Points = []
    for at, data in page.rows:
        values = _values(data.get(kind.key))
        others = [v * kind.scale for place, v in enumerate(values) if v is not None and place != faulty]
        if faulty is not None:
            value = values[faulty] if faulty < len(values) else None
            own.append((at, None if value is None else value * kind.scale))
        rest.append((at, sum(others) / len(others) if others else None))
    gap = GAP if page.past is None else max(GAP, timedelta(seconds=2.5 * page.past.step))
    return Lines(faulty, with_gaps(own, gap), with_gaps(rest, gap))


def spread(kind: Kind, page: NodePage) -> list[tuple[datetime, float, float]]:
    """(at, lowest, highest) over all GPUs or ports, where rows stand for longer than one sample."""
    if page.past is None:
        return []
    low, high = dict(page.past.low), dict(page.past.high)
    found = []
    for at in sorted(low.keys() & high.keys()):
        lows = [v for v in _values(low[at].get(kind.key)) if v is not None]
        highs = [v for v in _values(high[at].get(kind.key)) if v is not None]
        if lows and highs:
            found.append((at, min(lows), max(highs)))
    return found


def _values(found: Any) -> Sequence[float | None]:
    if isinstance(found, list):
        return found
    return [] if found is None else [found]


def with_gaps(points: Points, gap: timedelta = GAP) -> Points:
    """A point without a value where more than `gap` passed between two."""
    out: Points = []
    for at, value in points:
        if out and at - out[-1][0] > gap:
            out.append((out[-1][0] + timedelta(seconds=1), None))
        out.append((at, value))
    return out
