"""How parts that differ ran beside their peers, for people: the band of the peers and the part's own line.

Decides who is followed (whoever differs now, and suspects), from when (the window before the first look in which it
differed, so that a chart shows the change) and for how long (two hours of samples). Refuses to follow more than 200
parts: where that many differ, one chart tells no more than another.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import numpy as np

from fleet.health.grey.peers import Groups
from fleet.health.grey.window import SAMPLES, Window

FOLLOWED, KEPT = 200, 240
LOW, HIGH = 10, 90  # percentiles of the band
Point = tuple[float, float | None, float | None, float | None]  # monotonic time, own value, low, high


@dataclass(slots=True)
class Trace:
    points: list[deque[Point]]  # by measure
    seen: float = field(default=float("-inf"))


class Traces:
    def __init__(self, window: Window) -> None:
        self._window = window
        self._of: dict[int, Trace] = {}

    def follow(self, places: Groups, groups: Groups) -> None:
        """Add what is new of each of these parts; the others are forgotten."""
        chosen = [place for place in places.tolist() if groups[place] >= 0][:FOLLOWED]
        self._of = {place: self._of.get(place) or self._new() for place in chosen}
        samples = self._window.newest(SAMPLES)
        members: dict[int, Groups] = {}
        for place, trace in self._of.items():
            group = int(groups[place])
            if group not in members:
                members[group] = np.flatnonzero(groups == group)
            self._add(trace, place, members[group], [sample for sample in samples if sample[0] > trace.seen])

    def course(self, place: int, measure: int) -> list[Point]:
        trace = self._of.get(place)
        return list(trace.points[measure]) if trace else []

    def _new(self) -> Trace:
        return Trace([deque(maxlen=KEPT) for _ in self._window.measures])

    def _add(self, trace: Trace, place: int, members: Groups, samples: list[tuple[float, int]]) -> None:
        if not samples:
            return
        slots = [slot for _, slot in samples]
        peers = self._window.values[:, members[members != place]][:, :, slots]
        own = self._window.values[:, place][:, slots]
        low, high = _band(peers)
        for measure, points in enumerate(trace.points):
            for number, (when, _) in enumerate(samples):
                points.append(
                    (when, _plain(own[measure, number]), _plain(low[measure, number]), _plain(high[measure, number]))
                )
        trace.seen = samples[-1][0]


def _band(peers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The 10th and 90th percentile over the peers (axis 1), nearest rank; NaN where none is known."""
    ordered = np.sort(peers, axis=1)  # NaN goes last
    known = peers.shape[1] - np.isnan(peers).sum(axis=1)
    found = []
    for share in (LOW, HIGH):
        rank = np.maximum(np.round((known - 1) * share / 100).astype(np.int64), 0)
        if peers.shape[1]:
            found.append(np.take_along_axis(ordered, rank[:, None, :], axis=1)[:, 0])
        else:
            found.append(np.full(known.shape, np.nan))
    return found[0], found[1]


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(f"{value:.4g}")
