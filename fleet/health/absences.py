"""Many nodes that fall silent together.

Decides, from verdicts of two cycles, that so many nodes lost their data or their readiness within minutes that the
cause cannot be theirs, and says it of each, so that one shared incident can be made of it. Refuses to say anything of
one node (the verdict unknown says enough), of nodes that were never heard, and of nodes we are at work on.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from fleet.health.correlation_shared import DETECTOR, Limits, Shape, needed
from fleet.health.rules.findings import Findings
from fleet.health.rules.types import Edge, NodeFacts, Verdict

RULE = "telemetry-stale"
PERSISTS = timedelta(seconds=6)
"""A silence shorter than this is a hiccup of whoever asks."""


class Absences:
    """One per observer; what it found lies with the other findings, so it is remembered over a restart."""

    def __init__(self, findings: Findings, limits: Limits) -> None:
        self._findings, self._limits = findings, limits
        self._heard: set[str] = set()
        self._since: dict[str, datetime] = {}

    def look(self, verdicts: Mapping[str, Verdict], facts: Mapping[str, NodeFacts], now: datetime) -> list[Edge]:
        """Call once a cycle, with its verdicts."""
        silent = {
            name
            for name, verdict in verdicts.items()
            if verdict.verdict == "unknown" and name in facts and not facts[name].in_remediation
        }
        edges = self._back(silent, now)
        for name in silent & self._heard:
            self._since.setdefault(name, now)
        self._heard |= verdicts.keys() - silent
        self._since = {name: since for name, since in self._since.items() if name in silent}
        window = timedelta(seconds=self._limits.window)
        lately = [name for name, since in self._since.items() if PERSISTS <= now - since <= window]
        shape = Shape(len(facts))
        if len(lately) < needed((DETECTOR, RULE, RULE), shape, self._limits):
            return edges
        for name in sorted(lately):
            if (name, "", RULE) not in self._findings.open:
                edge = self._edge(name, verdicts[name], self._since[name], now)
                edges += self._findings.observe(edge, facts[name], now, current=True)
        return edges

    def _back(self, silent: set[str], now: datetime) -> list[Edge]:
        edges: list[Edge] = []
        for key in self._findings.of_cause(RULE):
            if key[0] not in silent:
                edges += self._findings.clear(key, now, "heard_again")
        return edges

    @staticmethod
    def _edge(name: str, verdict: Verdict, since: datetime, now: datetime) -> Edge:
        return Edge(
            kind="opened", rule_id=RULE, node=name, device="", code="", cause=RULE, severity="degraded",
            action_class="monitor", title="Nothing is heard of %(node)s any more", args={"node": name},
            first_bad_at=min(since, now), detected_at=now, source="node_exporter", evidence={"reason": verdict.reason},
        )  # fmt: skip
