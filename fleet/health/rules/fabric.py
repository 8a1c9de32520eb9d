"""Rule on InfiniBand ports that are down.

Decides from a port's two states. Only a port that was seen active before can be down, so cages without a cable and
unused ports say nothing. Refuses to blame the switch or the cable: one end is half the truth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet.health.rules.base import LevelRule, aligned
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Floats, Indices, Name
from fleet.health.rules.types import ClusterView, Edge, Rule
from fleet.health.rules.watching import cable_evidence, part_label
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

ACTIVE, LINK_UP = 4.0, 5.0
WORDS = {1: "down", 2: "initialising", 3: "armed", 4: "active"}


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
