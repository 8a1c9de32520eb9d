"""Rules on what Kubernetes counts: GPUs of a node against those expected, and those it may give out.

Decides by the node's own capacity and allocatable, held against what the profile expects, after a while in which a
restarting device plugin would have come back. Refuses to judge a node whose GPUs are divided or passed through (MIG,
time-slicing, vfio), or given out by claims without a device plugin (DRA): what it advertises are no whole GPUs, or
nothing at all, and the honest answer is that nobody knows.
"""

from __future__ import annotations

from fleet.health.rules.base import FrameRule
from fleet.health.rules.findings import Findings
from fleet.health.rules.levels import Bools
from fleet.health.rules.types import ClusterView, Edge, NodeFacts, Rule
from fleet.telemetry.frame import Frame


class Advertised(FrameRule):
    """One of the two counts is short for the window."""

    title = ""

    def __init__(self, rule: Rule, frame: Frame, findings: Findings) -> None:
        super().__init__(rule, frame, findings)
        self.since: dict[str, tuple[float, float]] = {}  # monotonic, wall

    def counts(self, facts: NodeFacts) -> tuple[int, int] | None:
        """(there, wanted); None where it cannot be judged."""
        raise NotImplementedError

    def cycle(self, view: ClusterView, quiet_nodes: Bools) -> list[Edge]:
        edges: list[Edge] = []
        judged = {name: counts for name, facts in view.nodes.items() if (counts := self._judged(facts)) is not None}
        short = {name: counts for name, counts in judged.items() if counts[0] < counts[1]}
        self.since = {name: since for name, since in self.since.items() if name in short}
        for node, device, cause in self.findings.of_cause(self.rule.id):
            if node in judged and node not in short:
                edges += self.findings.clear((node, device, cause), view.now, "count_whole")
        for name, (there, wanted) in short.items():
            began = self.since.setdefault(name, (view.monotonic, view.now.timestamp()))
            rule = self.pools.rule(self.rule, name)
            if view.monotonic - began[0] < rule.window or wanted - there < rule.threshold:
                continue
            if (name, "", self.rule.id) in self.findings.open or self._explained(name):
                continue
            args = {"there": str(there), "wanted": str(wanted)}
            edge = self.edge(view, name, "", self.title, args, began[1], {"there": there, "wanted": wanted})
            edges += self.findings.observe(edge, view.nodes[name], view.now, current=True)
        return edges

    def _explained(self, node: str) -> bool:
        """A GPU of the node is known to be bad: that it is missed here, too, is no fault of its own."""
        return any(finding.edge.severity == "unhealthy" for finding in self.findings.by_node.get(node, {}).values())

    def _judged(self, facts: NodeFacts) -> tuple[int, int] | None:
        """A node that is not ready or that we work on says nothing of its devices."""
        if facts.gpus_divided or not facts.gpus_advertised or facts.in_remediation or facts.ready is not True:
            return None
        return self.counts(facts)


class Capacity(Advertised):
    title = "Kubernetes counts %(there)s of %(wanted)s GPUs on the node"

    def counts(self, facts: NodeFacts) -> tuple[int, int] | None:
        if facts.gpu_expected is None or facts.gpu_capacity is None:
            return None
        return facts.gpu_capacity, facts.gpu_expected


class Allocatable(Advertised):
    title = "Kubernetes gives out %(there)s of the %(wanted)s GPUs it counts on the node"

    def counts(self, facts: NodeFacts) -> tuple[int, int] | None:
        if facts.gpu_capacity is None or facts.gpu_allocatable is None:
            return None
        return facts.gpu_allocatable, facts.gpu_capacity
