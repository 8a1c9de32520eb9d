"""Rules on InfiniBand ports: down, and flapping.

Decides from a port's two states and its drop counter. Only a port that was seen active before can be down, so cages
without a cable and unused ports say nothing. Refuses to blame the switch or the cable: one end is half the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.health.rules.base import FrameRule, LevelRule, aligned, number
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Delta, Floats, Indices, Name
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.health.rules.watching import cable_evidence, part_label
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

ACTIVE, LINK_UP = 4.0, 5.0
WORDS = {1: "down", 2: "initialising", 3: "armed", 4: "active"}
BUCKETS = 10


class PortDown(LevelRule):
    """Not active, or not linked, for the window."""

    metric = names.IB_STATE

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.was_up: Bools = np.empty(0, dtype=bool)
        self._waiting: set[Name] = set()

    def bad(self, view: ClusterView, rows: Indices, values: Floats) -> Bools:
        up = values == ACTIVE
        physical = aligned(self.frame, rows, names.IB_PHYSICAL)
        told = physical >= 0
        up[told] &= self.frame.r.value[physical[told]] == LINK_UP
        self._grow(len(rows))
        self.remember_rows(rows[up & ~self.was_up])
        self.was_up |= up
        return ~up & self.was_up

    def _grow(self, size: int) -> None:
        old = len(self.was_up)
        if size == old:
            return
        self.was_up = np.concatenate([self.was_up, np.zeros(size - old, dtype=bool)])
        if self._waiting:
            for place in range(old, size):
                self.was_up[place] = self.name(place) in self._waiting
                self._waiting.discard(self.name(place))

    def tell(self, view: ClusterView, row: int, first_bad: float) -> Edge:
        device = self.frame.device_of(row)
        state = int(self.frame.r.value[row])
        args = {"port": part_label(self.frame, row), "state": WORDS.get(state, f"in state {state}")}
        title = "InfiniBand port %(port)s is %(state)s"
        if state == ACTIVE:
            title = "InfiniBand port %(port)s has lost its physical link"
        waits_for_manager = state in (2, 3)
        return self.edge(
            view, device.node, device.key, title, args, first_bad,
            {"state": state, **cable_evidence(self.frame, row)},
            severity="degraded" if waits_for_manager else None,
        )  # fmt: skip

    def export(self, node: str) -> Any:
        places = self.frame.places(node, self.metric)
        up = [self.name(place)[1] for place in places if place < len(self.was_up) and self.was_up[place]]
        return {"level": self.level.export(node, places), "up": up}

    def load(self, node: str, state: Any) -> None:
        self.level.load(node, state["level"])
        self._waiting |= {(node, device) for device in state["up"]}


class PortFlap(FrameRule):
    """So many drops within the window, by the port's own counter or by its state seen going away."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.delta = Delta(self.name)
        self.drops = np.zeros((0, BUCKETS))
        self.bucket = 0
        self.first_wall: Floats = np.empty(0)
        self.open: Bools = np.empty(0, dtype=bool)

    def name(self, place: int) -> Name:
        device = self.frame.device_of(int(self.frame.rows(names.IB_DOWNED)[place]))
        return device.node, device.key

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        f = self.frame
        rows = f.rows(names.IB_DOWNED)
        if not len(rows):
            return []
        self._grow(len(rows))
        self._turn(view.monotonic)
        grown = self.delta.step(f.r.value[rows], np.isfinite(f.r.mono[rows]))
        self.remember_rows(rows[self.delta.changed])
        quiet = quiet_nodes[f.r.node[rows]]
        grown[quiet] = 0.0  # a link goes down with every boot of ours
        started = (grown > 0) & (self.drops.sum(axis=1) == 0)
        self.first_wall[started] = f.r.source[rows][started]
        self.drops[:, self.bucket % BUCKETS] += grown
        total = self.drops.sum(axis=1)
        opens = ~self.open & (total >= self.rule.threshold)
        clears = self.open & (total == 0) & f.fresh_rows(rows, view.monotonic)
        self.open = (self.open | opens) & ~clears
        edges: list[Edge] = []
        for place in np.flatnonzero(opens).tolist():
            edges += self._tell(view, place, float(total[place]))
        for place in np.flatnonzero(clears).tolist():
            edges += self.findings.clear((*self.name(place), self.rule.id), view.now, "steady")
        return edges

    def _tell(self, view: ClusterView, place: int, total: float) -> list[Edge]:
        node, device = self.name(place)
        facts = view.nodes.get(node)
        if facts is None:
            return []
        minutes = number(self.rule.window / 60)
        args = {"port": device, "count": number(total), "minutes": minutes}
        title = "InfiniBand port %(port)s dropped %(count)s times in %(minutes)s min"
        edge = self.edge(view, node, device, title, args, float(self.first_wall[place]), {"drops": total})
        return self.findings.observe(edge, facts, view.now, current=True)

    def _grow(self, size: int) -> None:
        more = size - len(self.open)
        if more:
            self.drops = np.concatenate([self.drops, np.zeros((more, BUCKETS))])
            self.first_wall = np.concatenate([self.first_wall, np.zeros(more)])
            was = [(*self.name(place), self.rule.id) in self.findings.open for place in range(size - more, size)]
            self.open = np.concatenate([self.open, np.array(was, dtype=bool)])

    def _turn(self, mono: float) -> None:
        """Empty the buckets that have left the window."""
        now = int(mono / max(self.rule.window / BUCKETS, 1e-3))
        for _ in range(min(now - self.bucket, BUCKETS)) if self.bucket else ():
            self.bucket += 1
            self.drops[:, self.bucket % BUCKETS] = 0.0
        self.bucket = now

    def export(self, node: str) -> Any:
        return self.delta.export(node, self.frame.places(node, names.IB_DOWNED))

    def load(self, node: str, state: Any) -> None:
        self.delta.load(node, state)

    def forget(self, node: str) -> None:
        for place in np.flatnonzero(self.open).tolist():
            if self.name(place)[0] == node:
                self.open[place] = False
                self.drops[place] = 0.0
