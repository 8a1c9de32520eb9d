"""From findings, freshness and readiness to one verdict per node.

Decides the order: lost (every view says that the host is gone), unhealthy (proved), unknown (no fresh data), degraded,
healthy. Missing data is its own state: a node whose exporter is silent is unknown, with the exporter and the time in
the reason, and never healthy. A node without GPUs is not asked for DCGM.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np

from fleet.health.rules.findings import Finding, Findings
from fleet.health.rules.pools import Pools
from fleet.health.rules.repeats import APPLICATION
from fleet.health.rules.types import ClusterView, DeviceVerdict, NodeFacts, Rule, Verdict, VerdictWord

STALE = "telemetry-stale"
NOTES = frozenset(f"xid-{code}" for code in APPLICATION)
Silence = tuple[str, datetime]  # the sentence and since when


class Verdicts:
    """Remembers since when each node is what it is."""

    def __init__(self, findings: Findings, rule: Rule) -> None:
        """`rule` says how many intervals of silence are too many."""
        self.findings, self.rule, self.pools = findings, rule, Pools()
        self._last: dict[str, Verdict] = {}

    def judge(self, view: ClusterView) -> dict[str, Verdict]:
        silent = self._silent(view)
        blind = self._blind(view)
        verdicts: dict[str, Verdict] = {}
        for name, facts in view.nodes.items():
            findings = self.findings.by_node.get(name)
            last = self._last.get(name)
            plain = not findings and facts.ready is True and name not in silent and name not in blind
            if plain and last is not None and last.verdict == "healthy":
                verdicts[name] = last
                continue
            counted = [finding for finding in list(findings.values()) if _counts(finding)] if findings else []
            now = self._one(view, facts, counted, silent.get(name), name in blind)
            verdicts[name] = _keep_since(now, last)
        self._last = verdicts
        return verdicts

    def _one(
        self, view: ClusterView, facts: NodeFacts, findings: list[Finding], silent: Silence | None, blind: bool
    ) -> Verdict:
        devices = _devices(findings)
        worst = max(findings, key=_weight, default=None)
        lost = next((finding for finding in findings if finding.edge.action_class == "fence_node"), None)
        if lost is not None:
            return replace(_of(lost, devices), verdict="lost")
        if worst is not None and worst.edge.severity == "unhealthy":
            return _of(worst, devices)
        if facts.ready is not True:
            since = min(facts.ready_since or view.now, view.now)
            said = facts.ready_reason or ("Ready is Unknown" if facts.ready is None else "Ready is False")
            return Verdict("unknown", f"Node is not ready: {said}.", "node-not-ready", since, devices)
        if silent is not None:
            return Verdict("unknown", silent[0], STALE, silent[1], devices)
        if blind:
            return Verdict("unknown", "No DCGM exporter is scraped on this node.", STALE, view.now, devices)
        if worst is not None:
            return _of(worst, devices)
        return Verdict("healthy", "", "", view.now)

    def _silent(self, view: ClusterView) -> dict[str, Silence]:
        """Nodes with an exporter that has not answered for too many intervals, and since when."""
        frame, silent = view.frame, dict[str, Silence]()
        t, size = frame.t, frame.t.size
        patience = self.pools.thresholds(self.rule, t.node[:size]) * t.interval[:size]
        stale = t.alive[:size] & (view.monotonic - t.mono[:size] > patience)
        for index in np.flatnonzero(stale).tolist():
            target = frame.targets[index]
            heard = float(frame.t.mono[index])
            if np.isinf(heard):
                age = max(0.0, view.monotonic - target.since_mono) if target.since_mono else 0.0
                text = f"No data yet from {target.job}"
            else:
                age = view.monotonic - heard
                text = f"No data from {target.job} for {age:.0f} s"
            text += f": {target.last_error}" if target.last_error else "."
            since = view.now - timedelta(seconds=age)
            if target.node not in silent or since < silent[target.node][1]:
                silent[target.node] = (text, since)
        return silent

    def _blind(self, view: ClusterView) -> set[str]:
        """Nodes that should have GPUs and have no exporter that speaks for them."""
        frame = view.frame
        t, size = frame.t, frame.t.size
        seeing = {frame.nodes[node] for node in t.node[:size][t.alive[:size] & t.gpu[:size]].tolist()}
        return {name for name, facts in view.nodes.items() if facts.gpu_expected and name not in seeing}


def _counts(finding: Finding) -> bool:
    """Rules in shadow only show what they see, and a single error of an application is only a note."""
    edge = finding.edge
    return not edge.shadow and not (edge.cause in NOTES and edge.action_class == "restart_app")


def _weight(finding: Finding) -> tuple[int, float]:
    """Unhealthy before degraded; then the earliest."""
    return (1 if finding.edge.severity == "unhealthy" else 0, -finding.edge.first_bad_at.timestamp())


def _of(finding: Finding, devices: dict[str, DeviceVerdict]) -> Verdict:
    word: VerdictWord = finding.edge.severity
    return Verdict(word, finding.edge.text + ".", finding.edge.rule_id, finding.edge.first_bad_at, devices)


def _devices(findings: Iterable[Finding]) -> dict[str, DeviceVerdict]:
    devices: dict[str, DeviceVerdict] = {}
    for finding in sorted(findings, key=_weight):
        edge = finding.edge
        if edge.device:
            devices[edge.device] = DeviceVerdict(edge.severity, edge.text + ".", edge.rule_id, edge.first_bad_at)
    return devices


def _keep_since(now: Verdict, last: Verdict | None) -> Verdict:
    """The same verdict by the same rule keeps its beginning."""
    if last is None or (last.verdict, last.rule) != (now.verdict, now.rule) or last.since >= now.since:
        return now
    return Verdict(now.verdict, now.reason, now.rule, last.since, now.devices)
