"""Rules over counters, made from data: growth and rates over full windows.

Decides by what a counter grew: at all (`grows`), by so much that even a full window could not excuse it (`rate`), by
so many within the window (`count`), or how often a value changed (`changes`). Windows differ where pools do. A counter
below its last value was reset, which is a new baseline and the end of what was counted. Refuses to extrapolate: a burst
is measured against what the whole window allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Delta, Floats, Indices
from fleet.health.rules.pools import Pools
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.health.rules.watch import Watch
from fleet.health.rules.watching import RowRule
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

BUCKETS = 6
Columns = slice | Indices  # the elements that share a window
# Replays a minute and lane that a healthy PCIe link stays below, by generation (DCGM's limits).
_PER_LANE = np.array([np.nan, 0.15, 0.3, 0.48, 0.96, 1.92, 3.84])
STEP_SECONDS = 30.0  # a boot time that moves by less was only corrected


class CounterRule(RowRule):
    def __init__(self, rule: Rule, watch: Watch, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, watch, frame, findings)
        self.delta, self.whole = Delta(self.name), Delta(self.name)
        self.grown = np.zeros((BUCKETS, 0), dtype=np.float32)
        self.total: Floats = np.empty(0)
        self.divisor = np.zeros((BUCKETS if watch.over else 0, 0), dtype=np.float32)  # growth of `over`, for a mean
        self.first: Floats = np.empty(0)
        self.open: Bools = np.empty(0, dtype=bool)
        self.bucket: dict[float, int] = {}  # by window: the one that is being filled

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f = self.frame
        rows = f.rows(self.watch.metric)
        if not len(rows):
            return []
        self._grow(len(rows))
        for place in np.flatnonzero(self.open).tolist():
            if (*self.key(place), self.cause) not in self.findings.open:  # ended by a boot, a repair or a person
                self.open[place] = False
                self.grown[:, place] = 0.0
        reset = self._take(rows, quiet_nodes, view.monotonic)
        if self.watch.how == "grows":
            return self._growths(view, rows)
        limit, windows = self._limit(rows), self._windows(rows)
        value = self._value()
        opens = ~self.open & (value >= limit)
        over = self.open & reset
        if self.open.any() and not self.rule.latched:
            over |= self.open & (value < limit) & (self.total <= 0) & f.fresh_rows(rows, view.monotonic)
        self.open = (self.open | opens) & ~over
        edges: list[Edge] = []
        for place in np.flatnonzero(opens).tolist():
            facts = view.nodes.get(self.key(place)[0])
            if facts is None:
                self.open[place] = False
                continue
            long = float(windows[place])
            told, allowed = (self._in_units(float(count[place]), long) for count in (value, limit))
            edge = self.tell(view, place, self.watch.title, told, allowed, float(self.first[place]))
            edges += self.findings.observe(edge, facts, edge.first_bad_at)
        for place in np.flatnonzero(over).tolist():
            edges += self.clear_if_last(view, place, self.open, "reset" if reset[place] else "steady")
        return edges

    def _take(self, rows: Indices, quiet_nodes: Bools, mono: float) -> Bools:
        """Put what is new into the current bucket; which counters were reset."""
        r = self.frame.r
        seen = np.isfinite(r.mono[rows]) & self.mine(rows)
        values, before = r.value[rows], self.delta.base
        if len(before) < len(rows):
            before = np.concatenate([before, np.full(len(rows) - len(before), np.nan)])
        grown = self.delta.step(values, seen)
        before = np.where(np.isnan(before), self.delta.base, before)
        self.remember_rows(rows[self.delta.changed] if self.watch.how == "grows" else rows[:0])
        with np.errstate(invalid="ignore"):
            reset = seen & (values < before)
            if self.watch.how == "changes":
                grown, reset = (np.abs(values - before) > STEP_SECONDS).astype(float), np.zeros_like(reset)
        if self.watch.how in ("changes", "count") or not self.rule.latched:
            places = np.flatnonzero(grown)
            grown[places[quiet_nodes[r.node[rows[places]]]]] = 0.0  # our own work makes links go down and nodes boot
        if self.watch.active:
            grown[~(np.nan_to_num(self.beside(self.watch.active, rows)) >= self.watch.active_from)] = 0.0
        more = grown
        if self.watch.over:
            more = self.whole.step(self.beside(self.watch.over, rows), np.ones(len(rows), dtype=bool))
        places = np.flatnonzero((grown > 0) & (self.total <= 0))
        self.first[places] = r.source[rows[places]]
        for window, columns in self._groups(rows):
            place = self._turn(window, columns, mono)
            self.grown[place, columns] += grown[columns]
            if self.watch.over:
                self.divisor[place, columns] += more[columns]
        self.grown[:, reset] = 0.0
        self.total = self.grown.sum(axis=0, dtype=np.float64)
        return reset

    def _value(self) -> Floats:
        if not self.watch.over:
            return self.total
        count = self.divisor.sum(axis=0, dtype=np.float64)
        return np.divide(self.total, count, out=np.zeros(len(count)), where=count >= 10)

    def _limit(self, rows: Indices) -> Floats:
        """What a whole window allows."""
        allowed = self.limits(rows)
        if self._plain:
            return np.maximum(allowed, 1e-9)
        if self.watch.lanes:
            gen = np.nan_to_num(self.beside(names.PCIE_GEN, rows)).astype(int).clip(0, 6)
            width = self.beside(names.PCIE_WIDTH, rows)
            own = np.ceil(width * _PER_LANE[gen])
            allowed = np.where(np.isnan(own), allowed, own + 1.0)  # more than the limit, in whole replays
        return np.maximum(allowed * self._windows(rows) / self.watch.per, 1e-9)

    @property
    def _plain(self) -> bool:
        """Is the limit a number of events or a mean, whatever the window?"""
        return self.watch.how in ("changes", "count") or bool(self.watch.over)

    def _in_units(self, count: float, window: float) -> float:
        return count if self._plain else count * self.watch.per / window

    def _windows(self, rows: Indices) -> Floats:
        windows = self.pools.windows(self.rule, self.nodes_of(rows))
        return np.broadcast_to(np.asarray(windows, dtype=float), (len(rows),))

    def _groups(self, rows: Indices) -> list[tuple[float, Columns]]:
        """The windows that hold, each with its elements; one for all unless a pool has its own."""
        windows = self.pools.windows(self.rule, self.nodes_of(rows))
        if not isinstance(windows, np.ndarray):
            return [(windows, slice(0, len(rows)))]
        return [(float(window), np.flatnonzero(windows == window)) for window in np.unique(windows)]

    def _growths(self, view: ClusterView, rows: Indices) -> list[Edge]:
        """Any growth since the last look is the fault itself; it stays until a boot, a repair or a person says so."""
        grown, limit = self.total, self.limits(rows)
        edges: list[Edge] = []
        for place in np.flatnonzero(grown >= np.maximum(limit, 1e-9)).tolist():
            facts = view.nodes.get(self.key(place)[0])
            if facts is not None:
                source = float(self.frame.r.source[rows[place]])
                edge = self.tell(view, place, self.watch.title, float(grown[place]), float(limit[place]), source)
                edges += self.findings.observe(edge, facts, edge.first_bad_at)
        self.grown[:] = 0.0
        self.total[:] = 0.0
        return edges

    def _grow(self, size: int) -> None:
        old = len(self.open)
        if size == old:
            return
        more = size - old
        self.grown = np.concatenate([self.grown, np.zeros((BUCKETS, more), dtype=np.float32)], axis=1)
        self.divisor = np.concatenate([self.divisor, np.zeros((len(self.divisor), more), dtype=np.float32)], axis=1)
        self.first = np.concatenate([self.first, np.zeros(more)])
        self.total = np.concatenate([self.total, np.zeros(more)])
        already = self.already()
        was = [self.name(place) in already for place in range(old, size)] if already else [False] * more
        self.open = np.concatenate([self.open, np.array(was, dtype=bool)])

    def _turn(self, window: float, columns: Columns, mono: float) -> int:
        """Empty the buckets that have left the window; the one to fill."""
        now = int(mono / max(window / BUCKETS, 1e-3)) + 1
        for bucket in range(max(self.bucket.get(window, now), now - BUCKETS) + 1, now + 1):
            self.grown[bucket % BUCKETS, columns] = 0.0
            if self.watch.over:
                self.divisor[bucket % BUCKETS, columns] = 0.0
        self.bucket[window] = now
        return now % BUCKETS

    def retune(self, rule: Rule, pools: Pools) -> None:
        """What was counted in windows of another length says nothing in the new ones; what is open stays so."""
        before = self.pools.every(self.rule, "window")
        super().retune(rule, pools)
        if self.pools.every(self.rule, "window") != before:
            self.bucket.clear()
            self.grown[:, ~self.open] = 0.0
            self.divisor[:, ~self.open] = 0.0

    def export(self, node: str) -> Any:
        """Baselines, so that growth during our absence is noticed; windows begin anew."""
        keeps = self.watch.how in ("grows", "changes", "count")
        return self.delta.export(node, self.frame.places(node, self.watch.metric)) if keeps else None

    def load(self, node: str, state: Any) -> None:
        self.delta.load(node, state)

    def forget(self, node: str) -> None:
        for place in np.flatnonzero(self.open).tolist():
            if self.key(place)[0] == node:
                self.open[place] = False
                self.grown[:, place] = 0.0
