"""One sample of one measure for every part, out of the frame.

Decides how gauges are added up and counters become rates, and whether NVLINK_BANDWIDTH_TOTAL is a counter at all:
exporters declare one, the field's documentation says throughput. A counter hardly ever falls; a throughput does. Until
its course has told, it is a gap. Refuses what is stale, series of MIG instances, and the interval of a counter's reset.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import Measure
from fleet.telemetry.frame import Frame

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]
FALLS, RISES, STEADY = 0.05, 0.5, 4


@dataclass(slots=True)
class _Course:
    """What a series did from sample to sample. `kind` is empty until it is known."""

    last: NDArray[np.float64]
    at: NDArray[np.float64]
    kind: str = ""
    rising: int = 0

    def learn(self, now: NDArray[np.float64]) -> None:
        known = ~np.isnan(now) & ~np.isnan(self.last) & (now > 0)
        if self.kind == "gauge" or not known.any():
            return
        moved = (now - self.last)[known]
        if (moved < 0).mean() > FALLS:
            self.kind = "gauge"
        elif (moved > 0).mean() > RISES:
            self.rising += 1
            self.kind = "counter" if self.rising >= STEADY else ""


class Readings:
    def __init__(self) -> None:
        self._courses: dict[str, _Course] = {}

    def read(self, frame: Frame, measure: Measure, parts: Indices, mono: float) -> Floats:
        """A value per part, NaN where there is none."""
        if measure.how == "rate":
            return self._rate(frame, measure.of[0], parts, mono)
        total = self.latest(frame, measure.of[0], parts, mono)
        for metric in measure.of[1:]:
            total = total + self.latest(frame, metric, parts, mono)
        if measure.instead and np.isnan(total).any():
            total = np.where(np.isnan(total), self._level(frame, measure.instead, parts, mono), total)
        return total.astype(np.float32)

    def latest(self, frame: Frame, metric: str, parts: Indices, mono: float) -> Floats:
        return self._column(frame, metric, parts, mono)[0].astype(np.float32)

    def _column(
        self, frame: Frame, metric: str, parts: Indices, mono: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The newest fresh value of each part and when it was received."""
        rows = frame.rows(metric)
        value, at = (np.full(frame.d.size + 1, np.nan) for _ in range(2))
        if len(rows):
            chosen = rows[frame.fresh_rows(rows, mono) & (frame.r.sub[rows] == 0)]
            value[frame.r.device[chosen]] = frame.r.value[chosen]
            at[frame.r.device[chosen]] = frame.r.mono[chosen]
        return value[parts], at[parts]

    def _rate(self, frame: Frame, metric: str, parts: Indices, mono: float) -> Floats:
        now, at = self._column(frame, metric, parts, mono)
        course = self._course(metric, len(parts))
        with np.errstate(invalid="ignore", divide="ignore"):
            rate = (now - course.last) / (at - course.at)
        rate[~(rate >= 0) | ~np.isfinite(rate)] = np.nan
        course.last, course.at = now, at
        return rate.astype(np.float32)

    def _level(self, frame: Frame, metric: str, parts: Indices, mono: float) -> Floats:
        course = self._course(metric, len(parts))
        now, at = self._column(frame, metric, parts, mono)
        course.learn(now)
        if course.kind == "counter":
            return self._rate(frame, metric, parts, mono)
        course.last, course.at = now, at
        return now.astype(np.float32) if course.kind == "gauge" else np.full(len(parts), np.nan, dtype=np.float32)

    def _course(self, metric: str, size: int) -> _Course:
        course = self._courses.setdefault(metric, _Course(np.full(size, np.nan), np.full(size, np.nan)))
        more = np.full(size - len(course.last), np.nan)
        if len(more):
            course.last, course.at = np.concatenate([course.last, more]), np.concatenate([course.at, more])
        return course
