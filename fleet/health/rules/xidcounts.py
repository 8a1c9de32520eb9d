"""Rule: Xids that dcgm-exporter counts by code, in a sliding window or since its start.

Decides by what came since the scrape before: of a window a code that was not in it, or was in it less often; of a total
its growth. So a code is seen though another one followed within the same scrape, and the same code twice is two; the
metric that holds the last code alone knows neither. What an exporter's first scrape shows is a baseline. Refuses to
read a code that leaves the window as news, and whatever is no code.
"""

from __future__ import annotations

import numpy as np

from fleet.health.rules.findings import Findings
from fleet.health.rules.gpu import XidMetric
from fleet.health.rules.levels import Bools, Floats
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

_NOW, _LATE = 0.5, 1.5  # intervals: a younger series was in the last scrape, an older one was not


class XidWindow(XidMetric):
    """`DCGM_EXP_XID_ERRORS_COUNT`, by default over five minutes: what is not in it has left it."""

    metric, leaves = names.XID_COUNT, True

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.there = np.empty(0, dtype=bool)

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        r, t = self.frame.r, self.frame.t
        rows = self.frame.rows(self.metric)
        if not len(rows):
            return []
        targets = r.target[rows]
        values, epoch = r.value[rows], t.epoch[targets]
        there = t.mono[targets] - r.mono[rows] < _LATE * t.interval[targets]
        new = len(rows) - len(self.value)
        if new:
            self.value = np.concatenate([self.value, np.where(r.born[rows[-new:]] > 1, 0.0, values[-new:])])
            self.epoch = np.concatenate([self.epoch, epoch[-new:]])
            self.there = np.concatenate([self.there, np.ones(new, dtype=bool)])
        before: Floats = np.where(self.there, self.value, 0.0) if self.leaves else self.value
        begun = epoch != self.epoch  # another process of the exporter: what its first scrapes show is a baseline
        grown = there & ~begun & (values > before)
        absent = np.where(begun | ~np.isnan(before), before, 0.0)
        self.value = np.where(there, values, absent)
        self.value[begun & (t.mono[targets] - r.mono[rows] >= _NOW * t.interval[targets])] = np.nan
        self.epoch, self.there = epoch.copy(), there
        edges: list[Edge] = []
        for place in np.flatnonzero(grown).tolist():
            row = int(rows[place])
            code = self.frame.row_sub[row].partition("/")[0]
            if code.isascii() and code.isdigit() and 0 < int(code) < 1000:
                edges += self.told(view, row, int(code))
        return edges


class XidTotal(XidWindow):
    """`DCGM_EXP_XID_ERRORS_TOTAL`: counted since the exporter's start."""

    metric, leaves = names.XID_TOTAL, False
