"""Five minutes of the compared measures of every GPU, as float32.

Decides the pace (a sample each half minute: half of all scrapes repeat the value before) and that what is stale is a
gap. Memory is measures x GPUs x samples x 4 bytes: 26 MB for 80,000 GPUs. Refuses MIG instances, whose counters mean
something else. One thread.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import ACTIVITY, ACTIVITY_FALLBACK, IDLE, IDLE_UTIL, MEASURES
from fleet.telemetry.frame import Frame

SAMPLES = 10
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]


class Window:
    """`gpus` are device indices of the frame, in the order of the columns of `values` and `active`."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self._samples = samples
        self.gpus: Indices = np.empty(0, dtype=np.int64)
        self.values: Floats = np.empty((len(MEASURES), 0, samples), dtype=np.float32)
        self.active: Bools = np.empty((0, samples), dtype=bool)
        self.taken = 0
        self._plain: dict[str, list[bool]] = {}

    @property
    def full(self) -> bool:
        return self.taken >= self._samples

    def sample(self, frame: Frame, mono: float) -> None:
        """Take what is fresh into the next slot, over the oldest."""
        self._grow(frame.gpus())
        slot = self.taken % self._samples
        for place, measure in enumerate(MEASURES):
            self.values[place, :, slot] = self._column(frame, measure.metric, mono)
        engine, used = self._column(frame, ACTIVITY, mono), self._column(frame, ACTIVITY_FALLBACK, mono)
        self.active[:, slot] = np.where(np.isnan(engine), used > IDLE_UTIL, engine > IDLE)
        self.taken += 1

    def _grow(self, gpus: Indices) -> None:
        more = len(gpus) - len(self.gpus)
        if more > 0:
            gap = np.full((len(MEASURES), more, self._samples), np.nan, dtype=np.float32)
            self.values = np.concatenate([self.values, gap], axis=1)
            self.active = np.concatenate([self.active, np.zeros((more, self._samples), dtype=bool)])
            self.gpus = gpus

    def latest(self, frame: Frame, metric: str, mono: float) -> Floats:
        """The newest fresh value of a metric that is not kept, per GPU of the window."""
        return self._column(frame, metric, mono)

    def _column(self, frame: Frame, metric: str, mono: float) -> Floats:
        rows = frame.rows(metric)
        by_device = np.full(frame.d.size + 1, np.nan, dtype=np.float32)
        if len(rows):
            plain = self._plain.setdefault(metric, [])
            plain += [not frame.row_sub[row] for row in rows[len(plain) :].tolist()]
            fresh = frame.fresh_rows(rows, mono) & np.array(plain, dtype=bool)
            by_device[frame.r.device[rows[fresh]]] = frame.r.value[rows[fresh]]
        return by_device[self.gpus]
