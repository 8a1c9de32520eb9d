"""Five minutes of the compared measures of every GPU, or of every port, as float32.

Decides the pace (a sample each half minute: half of all scrapes repeat the value before) and that what is stale is a
gap. Memory is measures x parts x samples x 4 bytes: 51 MB for 80,000 GPUs and as many ports. One thread.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from fleet.health.grey.measures import Measure
from fleet.health.grey.readings import Floats, Indices, Readings
from fleet.telemetry.frame import Frame

SAMPLES = 10
Bools = NDArray[np.bool_]


class Window:
    """`parts` are device indices of the frame, in the order of the columns of `values` and `active`."""

    def __init__(self, measures: tuple[Measure, ...], samples: int = SAMPLES) -> None:
        self.measures = measures
        self._samples = samples
        self.parts: Indices = np.empty(0, dtype=np.int64)
        self.values: Floats = np.empty((len(measures), 0, samples), dtype=np.float32)
        self.active: Bools = np.empty((0, samples), dtype=bool)
        self.taken = 0
        self.readings = Readings()
        self._times: deque[float] = deque(maxlen=samples)

    @property
    def full(self) -> bool:
        return self.taken >= self._samples

    def sample(self, frame: Frame, parts: Indices, active: Bools, mono: float) -> None:
        """Take what is fresh into the next slot, over the oldest. `parts` only ever grows at its end."""
        self._grow(parts)
        slot = self.taken % self._samples
        for place, measure in enumerate(self.measures):
            self.values[place, :, slot] = self.readings.read(frame, measure, parts, mono)
        self.active[:, slot] = active
        self._times.append(mono)
        self.taken += 1

    def newest(self, count: int) -> list[tuple[float, int]]:
        """(when, slot) of the last samples, oldest first."""
        times = list(self._times)[-count:]
        first = self.taken - len(times)
        return [(when, (first + number) % self._samples) for number, when in enumerate(times)]

    def _grow(self, parts: Indices) -> None:
        more = len(parts) - len(self.parts)
        if more > 0:
            gap = np.full((len(self.measures), more, self._samples), np.nan, dtype=np.float32)
            self.values = np.concatenate([self.values, gap], axis=1)
            self.active = np.concatenate([self.active, np.zeros((more, self._samples), dtype=bool)])
            self.parts = parts
