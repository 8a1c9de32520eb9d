"""Rules on the host: not ready, and a clock that is off.

Decides from the Ready condition that the observer saw, timed by our own monotonic clock from when we first saw it
bad, so that a stepped clock opens nothing early. Refuses to call a node lost on the API server's word alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fleet.health.rules.base import FrameRule, number
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools, Level, Name
from fleet.health.rules.lostness import Lostness
from fleet.health.rules.types import ActionClass, ClusterView, Edge, Rule
from fleet.telemetry.frame import Frame

FENCE: ActionClass = "fence_node"
GONE = "The host is gone: no lease, no exporter, and its peers are heard (%(reason)s)"


class NotReady(FrameRule):
    """Ready is False or Unknown for the window; a host that every view says is gone is fenced, not rebooted."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.since: dict[str, float] = {}  # monotonic
        self.since_wall: dict[str, float] = {}
        self._waiting: dict[str, float] = {}  # wall, from a checkpoint

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        edges: list[Edge] = []
        sick = {name: facts for name, facts in view.nodes.items() if facts.ready is not True}
        for name in [name for name in self.since if name not in sick]:
            del self.since[name], self.since_wall[name]
            self.findings.remember(name)
        for key in self.findings.of_cause(self.rule.id):
            if key[0] in view.nodes and key[0] not in sick:
                edges += self.findings.clear(key, view.now, "ready_again")
        lostness = Lostness(view) if sick else None
        for name, facts in sick.items():
            if name not in self.since:
                seen = self._waiting.pop(name, view.now.timestamp())
                self.since_wall[name] = seen
                self.since[name] = view.monotonic - max(0.0, view.now.timestamp() - seen)
                self.findings.remember(name)
            bad_for = view.monotonic - self.since[name]
            if facts.in_remediation or bad_for < self.pools.rule(self.rule, name).window:
                continue
            gone = lostness is not None and lostness.says(name)
            known = self.findings.open.get((name, "", self.rule.id))
            if known is None or (gone and known.edge.action_class != FENCE):
                edges += self._tell(view, name, bad_for, gone)
        if self._waiting:
            self._waiting = {name: at for name, at in self._waiting.items() if name not in view.nodes}
        return edges

    def _tell(self, view: ClusterView, name: str, bad_for: float, gone: bool) -> list[Edge]:
        facts = view.nodes[name]
        word = "Unknown" if facts.ready is None else "False"
        since = facts.ready_since or view.now
        args = {"reason": facts.ready_reason or f"Ready is {word}"}
        before = since < facts.connected_at
        evidence = {"ready": word, "reason": facts.ready_reason, "seconds": round(bad_for), "before_connection": before}
        edge = self.edge(view, name, "", "Node is not ready: %(reason)s", args, since.timestamp(), evidence)
        if not gone:
            return self.findings.observe(edge, facts, view.now, current=True)
        told = {**evidence, "lost": True}
        asked = self.findings.ask((name, "", self.rule.id), FENCE, "unhealthy", told, view.now)
        edge = replace(edge, action_class=FENCE, title=GONE, evidence=told)
        return asked or self.findings.observe(edge, facts, view.now, current=True)

    def export(self, node: str) -> Any:
        return {"wall": self.since_wall[node]} if node in self.since_wall else None

    def load(self, node: str, state: Any) -> None:
        if state.get("wall"):
            self._waiting[node] = float(state["wall"])


class ClockSkew(FrameRule):
    """The node's clock, by its own exporter or by the timestamps of its samples, is far from ours."""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.level = Level(self.name, self._already)

    def _already(self) -> set[Name]:
        """The finding is the node's, the element an exporter: any of its exporters may clear it."""
        nodes = {node for node, _, _ in self.findings.of_cause(self.rule.id)}
        return {(target.node, target.job) for node in nodes for target in self.frame.targets_of(node)}

    def name(self, place: int) -> Name:
        return self.frame.targets[place].node, self.frame.targets[place].job

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        t, size = self.frame.t, self.frame.t.size
        if not size:
            return []
        skew = t.skew[:size]
        measured = t.skew_seq[:size].astype(np.float64)
        at = np.full(size, view.monotonic)
        wall = view.now.timestamp()
        node = t.node[:size]
        bad = np.abs(skew) > self.pools.thresholds(self.rule, node)
        now, patience = (view.monotonic, wall), self.pools.patience(self.rule, node)
        opens, clears = self.level.step(
            measured, at, lambda few: np.full(len(few), wall), bad, lambda few: quiet_nodes[node[few]], now, patience
        )
        edges: list[Edge] = []
        for place in opens.tolist():
            facts = view.nodes.get(self.frame.targets[place].node)
            if facts is None:
                continue
            off = float(skew[place])
            args = {"seconds": number(round(abs(off))), "side": "ahead" if off > 0 else "behind"}
            title = "Clock of the node is %(seconds)s s off (%(side)s)"
            first = float(self.level.bad_wall[place])
            edge = self.edge(view, facts.name, "", title, args, first, {"offset_seconds": round(off, 1)})
            edges += self.findings.observe(edge, facts, view.now, current=True)
        for place in clears.tolist():
            edges += self.findings.clear((self.name(place)[0], "", self.rule.id), view.now, "clock_right")
        return edges

    def export(self, node: str) -> Any:
        return self.level.export(node, [target.index for target in self.frame.targets_of(node)])

    def load(self, node: str, state: Any) -> None:
        self.level.load(node, state)

    def forget(self, node: str) -> None:
        self.level.forget(node)
