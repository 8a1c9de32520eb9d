"""The rule engine: one object per cluster, fed by cycles and by kernel lines.

Decides in which order rules look, and holds their state, which it can export per node for the checkpoint and take
back. Refuses I/O. `cycle` and `on_kernel_line` may run in two threads: a line never waits for a cycle.

    engine = RuleEngine(frame)                     # or RuleEngine(frame, overrides={"ib-down": {"window": 30}})
    engine.import_state(saved)                # before the first cycle
    edges = engine.on_kernel_line(line, facts, now)
    edges = engine.cycle(ClusterView(now, monotonic, frame, nodes))
    verdicts = engine.verdicts(view)               # after the cycle
    state = engine.export_state(engine.take_dirty())
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from fleet.health.rules.advertised import Allocatable, Capacity
from fleet.health.rules.base import FrameRule
from fleet.health.rules.catalogue import WATCHED
from fleet.health.rules.clocks import SlowedByHardware
from fleet.health.rules.counts import GpuCount, GpuLost
from fleet.health.rules.dcgmhealth import HealthCheck, HealthWarning
from fleet.health.rules.events import HealthEvents
from fleet.health.rules.fabric import PortDown
from fleet.health.rules.findings import Finding, Findings, Key
from fleet.health.rules.gpu import Thermal, XidMetric
from fleet.health.rules.host import ClockSkew, NotReady
from fleet.health.rules.levels import Bools
from fleet.health.rules.loglines import KernelLines
from fleet.health.rules.pools import Pools
from fleet.health.rules.rates import CounterRule
from fleet.health.rules.repeats import AppRepeats
from fleet.health.rules.storage import MountHung, NfsStalled
from fleet.health.rules.tuning import Tuning, tuned
from fleet.health.rules.types import ClusterView, Edge, NodeFacts, Rule, Verdict
from fleet.health.rules.verdicts import STALE, Verdicts
from fleet.health.rules.watch import LEVELS
from fleet.health.rules.watching import GaugeRule, RowRule
from fleet.health.rules.xidcounts import XidTotal, XidWindow
from fleet.telemetry.frame import Frame
from fleet.telemetry.healthevents import HealthEvent
from fleet.telemetry.kernellog import KernelLine

STATE_VERSION = 1
_RULES: tuple[tuple[str, str, type[FrameRule]], ...] = (
    ("xid-dcgm", "xid-dcgm", XidMetric),
    ("xid-window", "xid-dcgm", XidWindow),
    ("xid-total", "xid-dcgm", XidTotal),
    ("xid-repeat", "xid-repeat", AppRepeats),
    ("dcgm-health-fail", "dcgm-health-fail", HealthCheck),
    ("dcgm-health-warn", "dcgm-health-warn", HealthWarning),
    ("clock-slowed", "clock-slowed", SlowedByHardware),
    ("gpu-lost", "gpu-lost", GpuLost),
    ("gpu-count", "gpu-count", GpuCount),
    ("gpu-capacity", "gpu-capacity", Capacity),
    ("gpu-allocatable", "gpu-allocatable", Allocatable),
    ("thermal", "thermal", Thermal),
    ("ib-down", "ib-down", PortDown),
    ("mount-hung", "mount-hung", MountHung),
    ("nfs-stalled", "mount-hung", NfsStalled),
    ("node-not-ready", "node-not-ready", NotReady),
    ("clock-skew", "clock-skew", ClockSkew),
)


class RuleEngine:
    def __init__(self, frame: Frame, overrides: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.frame = frame
        self.tuning = Tuning(tuned(overrides or {}))
        self.rules: dict[str, Rule] = dict(self.tuning.rules)
        self.pools = Pools()
        self.findings = Findings()
        self.findings.tune = self._tune
        self._parts: dict[str, FrameRule] = {
            name: make(self.rules[rule_id], frame, self.findings) for name, rule_id, make in _RULES
        }
        self._parts |= self._watched()
        nfs, repeats = self._parts["nfs-stalled"], self._parts["xid-repeat"]
        assert isinstance(nfs, NfsStalled) and isinstance(repeats, AppRepeats)  # noqa: S101  facts of the table above
        self._lines = KernelLines(self.rules, frame, self.findings, nfs, repeats)
        self._events = HealthEvents(self.rules, frame, self.findings)
        self._verdicts = Verdicts(self.findings, self.rules[STALE])

    def retune(self, tuning: Tuning, now: datetime) -> list[Edge]:
        """The site changed its rules: what is open by a rule that changed is judged anew. Its edges must be stored."""
        changed = {rule_id for rule_id, rule in tuning.rules.items() if rule != self.rules.get(rule_id)}
        changed |= {r for pools in (tuning.pools, self.tuning.pools) for rules in pools.values() for r in rules}
        self.tuning = tuning
        self.rules.update(tuning.rules)
        self.pools = Pools(tuning.pools, tuning.codes, self.pools.by_name)
        self._lines.pools = self.pools
        for part in self._parts.values():
            part.retune(self.rules[part.rule.id], self.pools)
        self._verdicts.rule, self._verdicts.pools = self.rules[STALE], self.pools
        return [e for key, finding in self.open_findings().items() for e in self._again(key, finding, changed, now)]

    def _again(self, key: Key, finding: Finding, changed: set[str], at: datetime) -> list[Edge]:
        """End a finding whose rule or code is off now, or whose rule changed between shadow and earnest."""
        edge = finding.edge
        hushed = self._is_hushed(edge)
        if edge.rule_id not in changed and not hushed:
            return []
        facts = self.pools.by_name.get(edge.node)
        now = None if hushed else self._tune(edge, facts.pool if facts else "")
        if now is not None and now.shadow == edge.shadow:
            return []
        self._forget(key[0])
        return self.findings.clear(key, at, "rule_off" if now is None else "rule_changed")

    def _is_hushed(self, edge: Edge) -> bool:
        """Does the site say of its code that it is nothing?"""
        facts = self.pools.by_name.get(edge.node)
        for family, code in (("xid", edge.evidence.get("xid")), ("sxid", edge.evidence.get("sxid"))):
            said = self.pools.codes.said(family, str(code), facts.pool if facts else "")
            if code is not None and edge.cause == f"{family}-{code}" and said is not None and said.severity is None:
                return True
        return False

    def _tune(self, edge: Edge, pool: str) -> Edge | None:
        base = self.rules.get(edge.rule_id)
        if base is None:
            return edge
        rule = self.pools.rule_of(base, pool)
        if not rule.enabled:
            return None
        changes: dict[str, Any] = {"shadow": rule.shadow} if rule.shadow != edge.shadow else {}
        changes |= {"mode": rule.mode} if rule.mode != edge.mode else {}
        if rule is not base:
            changes |= {"severity": rule.severity} if edge.severity == base.severity != rule.severity else {}
            changes |= {"action_class": rule.action_class} if edge.action_class == base.action_class else {}
        return replace(edge, **changes) if changes else edge

    def _watched(self) -> dict[str, FrameRule]:
        """The rules that are data alone, one part for each metric that they look at."""
        parts: dict[str, FrameRule] = {}
        for watched in WATCHED:
            for number, watch in enumerate(watched.watches):
                kind: type[RowRule] = GaugeRule if watch.how in LEVELS else CounterRule
                part = kind(self.rules[watched.rule.id], watch, self.frame, self.findings)
                part.cause = watched.rule.id + (f".{number + 1}" if number else "")
                parts[part.cause] = part
        return parts

    @property
    def counts(self) -> Counter[str]:
        """What was seen and opened nothing: history, after_effect, ignored_xid, future_line, unreadable_state,
        line_<kind>."""
        return self.findings.counts

    def cycle(self, view: ClusterView, pause: Callable[[], None] = lambda: None) -> list[Edge]:
        """Look at the whole cluster once. `pause` is called between two rules, for whoever has others to let pass."""
        edges = self.findings.sweep(view.nodes, view.now)
        for node in {edge.node for edge in edges if edge.evidence.get("cleared_by") == "node_gone"}:
            self._forget(node)
        quiet = self._quiet(view)
        self.pools.look(view.nodes, self.frame.node_index, len(quiet))
        for part in self._parts.values():
            pause()
            if part.rule.enabled or self.pools.of:
                edges += part.cycle(view, quiet)
        return edges

    def on_kernel_line(self, line: KernelLine, node_facts: NodeFacts, now: datetime) -> list[Edge]:
        """Judge one line of a node that the caller has resolved (its claim alone is not trusted)."""
        return self._lines.take(line, node_facts, now)

    def on_event(self, event: HealthEvent, node_facts: NodeFacts, now: datetime) -> list[Edge]:
        """Judge a health event of another tool, of a node that the caller has resolved."""
        return self._events.take(event, node_facts, now)

    def verdicts(self, view: ClusterView) -> dict[str, Verdict]:
        return self._verdicts.judge(view)

    def open_findings(self) -> dict[Key, Finding]:
        return dict(self.findings.open)

    def clear(self, node: str, device: str, cause: str, now: datetime, why: str = "cleared") -> list[Edge]:
        """A person or a passed validation says that it is over."""
        edges = self.findings.clear((node, device, cause), now, why)
        if edges:
            self._forget(node)
        return edges

    def _forget(self, node: str) -> None:
        for part in self._parts.values():
            part.forget(node)

    def _quiet(self, view: ClusterView) -> Bools:
        """By the frame's node index: nodes we do not know, or are at work on."""
        quiet = np.ones(2 * len(self.frame.nodes) + 1024, dtype=bool)  # with room for those that come meanwhile
        index = self.frame.node_index
        for name, facts in view.nodes.items():
            place = index.get(name)
            if place is not None:
                quiet[place] = facts.in_remediation
        return quiet

    # -- checkpoint -----------------------------------------------------------------------------------------------

    def take_dirty(self, limit: int = 200) -> set[str]:
        """Nodes to save now: every one with a changed finding, and up to `limit` whose baselines or damping changed."""
        return self.findings.take_dirty(limit)

    def export_state(self, nodes: Iterable[str] | None = None) -> dict[str, Any]:
        """JSON-able state of these nodes (all when None): {"version": 1, "nodes": {name: {...}}}."""
        chosen = nodes if nodes is not None else {*self.frame.nodes, *self.findings.by_node}
        return {"version": STATE_VERSION, "nodes": {node: self._export(node) for node in chosen}}

    def _export(self, node: str) -> dict[str, Any]:
        state: dict[str, Any] = {"findings": self.findings.export(node)}
        for name, part in self._parts.items():
            own = part.export(node)
            if own:
                state[name] = own
        return state

    def import_state(self, state: Mapping[str, Any]) -> None:
        """Take what `export_state` gave, before the first cycle. Another version's state is ignored, as if new."""
        if state.get("version") != STATE_VERSION:
            return
        for node, saved in state.get("nodes", {}).items():
            self.findings.load(node, saved.get("findings", []))
            for name, part in self._parts.items():
                if name in saved:
                    self._load(part, node, saved[name])

    def _load(self, part: FrameRule, node: str, saved: Any) -> None:
        """A part that cannot read what another version of it saved begins anew; the findings are kept apart."""
        try:
            part.load(node, saved)
        except (TypeError, KeyError, ValueError, AttributeError):
            self.findings.counts["unreadable_state"] += 1
