"""Rule: clocks that hardware holds low while the peers of the GPU run faster.

Decides by the clock reasons (hardware slowdown, hardware thermal, power brake) and by the clock of the other busy GPUs
of the node, of the same model and without such a reason. Refuses to judge idle GPUs, and GPUs with too few peers: that
its hardware lowered a clock is told by other rules, that work is lost needs a comparison.
"""

from __future__ import annotations

import numpy as np

from fleet.health.rules.base import LevelRule, aligned, number
from fleet.health.rules.gpu import gpu_evidence, gpu_label
from fleet.health.rules.levels import Bools, Floats, Indices
from fleet.health.rules.types import ClusterView, Edge
from fleet.telemetry import names

HARDWARE = 0x08 | 0x40 | 0x80
BUSY = 20.0  # per cent of utilisation
PEERS = 3


class SlowedByHardware(LevelRule):
    metric = names.CLOCK_REASONS

    def bad(self, view: ClusterView, rows: Indices, values: Floats) -> Bools:
        bad = np.zeros(len(rows), dtype=bool)
        held = (np.nan_to_num(values).astype(np.int64) & HARDWARE) != 0
        if not held.any():
            return bad
        clock, busy = self._fresh(rows, names.SM_CLOCK), self._fresh(rows, names.GPU_UTIL) >= BUSY
        node = self.frame.r.node[rows]
        limits = self.limits(rows)
        for place in np.flatnonzero(held & busy & ~np.isnan(clock)).tolist():
            model = self._model(int(rows[place]))
            mates = np.flatnonzero((node == node[place]) & busy & ~held & ~np.isnan(clock)).tolist()
            peers = [mate for mate in mates if self._model(int(rows[mate])) == model]
            if len(peers) >= PEERS:
                bad[place] = clock[place] < limits[place] * float(np.median(clock[peers]))
        return bad

    def _fresh(self, rows: Indices, metric: str) -> Floats:
        """Values beside the rows, nan where they are missing or of an older scrape."""
        at = aligned(self.frame, rows, metric)
        told = np.flatnonzero(at >= 0)
        told = told[self.frame.r.mono[at[told]] >= self.frame.r.mono[rows[told]]]
        values = np.full(len(rows), np.nan)
        values[told] = self.frame.r.value[at[told]]
        return values

    def _model(self, row: int) -> str:
        return self.frame.device_of(row).attrs.get("model", "")

    def tell(self, view: ClusterView, row: int, first_bad: float) -> Edge:
        device = self.frame.device_of(row)
        clock = float(self._fresh(np.array([row]), names.SM_CLOCK)[0])
        args = {"gpu": gpu_label(self.frame, device.node, device.key), "value": number(clock)}
        reasons = int(self.frame.r.value[row])
        evidence = {"mhz": clock, "reasons": hex(reasons), **gpu_evidence(self.frame, device.node, device.key)}
        title = "GPU %(gpu)s is held at %(value)s MHz by its hardware, below its peers"
        return self.edge(view, device.node, device.key, title, args, first_bad, evidence)
