"""What all rules over the frame share.

Decides the contract of a rule (`cycle`, `export`, `load`, `forget`) and how an edge is made from a row. Refuses to
hold thresholds: those are data in the catalogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Floats, Indices, Level, Name
from fleet.health.rules.pools import Pools
from fleet.health.rules.types import ActionClass, ClusterView, Edge, Rule, Severity
from fleet.telemetry.frame import Frame


class FrameRule:
    """One rule with its state. `frame` is fixed at construction so that element names can be found at any time."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        self.rule, self.frame, self.findings = rule, frame, findings
        self.pools = Pools()

    def retune(self, rule: Rule, pools: Pools) -> None:
        """The site changed its rules."""
        self.rule, self.pools = rule, pools

    def limits(self, rows: Indices) -> Floats:
        """The threshold of each row, as its node's pool has it."""
        allowed = self.pools.thresholds(self.rule, self.nodes_of(rows))
        return np.broadcast_to(np.asarray(allowed, dtype=float), (len(rows),))

    def nodes_of(self, rows: Indices) -> Callable[[], NDArray[np.int32]]:
        """The node of each row, for whoever needs it after all."""
        return lambda: self.frame.r.node[rows]

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        raise NotImplementedError

    def export(self, node: str) -> Any:
        """JSON-able state of one node, falsy when there is none."""
        return None

    def load(self, node: str, state: Any) -> None:
        """Take what `export` gave."""

    def forget(self, node: str) -> None:
        """Findings of this node were closed from outside."""

    def remember(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.findings.remember(node)

    def remember_rows(self, rows: Indices) -> None:
        if len(rows):
            self.remember(self.frame.nodes[node] for node in np.unique(self.frame.r.node[rows]).tolist())

    def edge(
        self,
        view: ClusterView,
        node: str,
        device: str,
        title: str,
        args: dict[str, str],
        first_bad: float,
        evidence: dict[str, Any],
        *,
        cause: str = "",
        code: str = "",
        severity: Severity | None = None,
        action: ActionClass | None = None,
    ) -> Edge:
        rule = self.pools.rule(self.rule, node)
        return Edge(
            kind="opened",
            rule_id=rule.id,
            node=node,
            device=device,
            code=code,
            cause=cause or rule.id,
            severity=severity or rule.severity,
            action_class=action or rule.action_class,
            title=title,
            args={"device": device, "node": node, **args},
            first_bad_at=min(datetime.fromtimestamp(first_bad, UTC), view.now) if first_bad else view.now,
            detected_at=view.now,
            source=rule.source,
            latched=rule.latched,
            evidence=evidence,
        )


class LevelRule(FrameRule):
    """A condition on the rows of one metric: subclasses say which rows are bad and how to tell it."""

    metric = ""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.level = Level(self.name, self._already)

    def _already(self) -> set[Name]:
        return {(node, device) for node, device, _ in self.findings.of_cause(self.rule.id)}

    def name(self, place: int) -> Name:
        device = self.frame.device_of(int(self.frame.rows(self.metric)[place]))
        return device.node, device.key

    def bad(self, view: ClusterView, rows: Indices, values: Floats) -> Bools:
        raise NotImplementedError

    def tell(self, view: ClusterView, row: int, first_bad: float) -> Edge:
        raise NotImplementedError

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        rows = self.frame.rows(self.metric)
        if not len(rows):
            return []
        r = self.frame.r
        mono = r.mono[rows]
        bad = self.bad(view, rows, r.value[rows])
        now = (view.monotonic, view.now.timestamp())
        patience = self.pools.patience(self.rule, self.nodes_of(rows))
        opens, clears = self.level.step(
            mono, mono, lambda few: r.source[rows[few]], bad, lambda few: quiet_nodes[r.node[rows[few]]], now, patience
        )
        self.remember_rows(rows[self.level.changed])
        edges: list[Edge] = []
        for place in opens.tolist():
            row = int(rows[place])
            facts = view.nodes.get(self.frame.device_of(row).node)
            if facts is None:
                self.level.open[place] = False
                continue
            edge = self.tell(view, row, float(self.level.bad_wall[place]))
            edges += self.findings.observe(edge, facts, view.now, current=True)
        for place in clears.tolist():
            node, device = self.name(place)
            edges += self.findings.clear((node, device, self.rule.id), view.now, "good_again")
        return edges

    def export(self, node: str) -> Any:
        return self.level.export(node, self.frame.places(node, self.metric))

    def load(self, node: str, state: Any) -> None:
        self.level.load(node, state)

    def forget(self, node: str) -> None:
        self.level.forget(node)


def aligned(frame: Frame, rows: Indices, other: str) -> Indices:
    """For rows of one metric the row of another metric on the same device, -1 where there is none.

    Kept by device index, so it is one lookup in an array, not a search.
    """
    theirs = frame.rows(other)
    table = np.full(frame.d.size + 1, -1, dtype=np.int64)  # sized last: devices may be added while we look
    table[frame.r.device[theirs]] = theirs
    return table[frame.r.device[rows]]


def number(value: float) -> str:
    """A value for people, without a trailing `.0`."""
    return f"{value:g}"
