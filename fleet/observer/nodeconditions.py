"""Conditions that other tools set on nodes, as health events.

Decides which conditions are known (node-problem-detector's, NVSentinel's, the kubelet's) and what each asks for. One
that turned bad while we watched is news; one that was bad when we first saw the node has no age that could be trusted,
so it is shown and acts on nothing. Refuses conditions it does not know: a cluster's own may mean anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.ports.cluster import NodeSeen
from fleet.telemetry.healthevents import MONITOR, HealthEvent

DETECTOR = "node-problem-detector"
# What node-problem-detector calls permanent: it will not pass by itself.
PERMANENT: Mapping[str, str] = {
    "KernelDeadlock": "inspect",
    "ReadonlyFilesystem": "inspect",
    "XfsShutdown": "inspect",
    "CperHardwareErrorFatal": "inspect",
}
_WATCHED = re.compile(
    r"KubeletUnhealthy|ContainerRuntimeUnhealthy|CorruptDockerOverlay2|Frequent\w{1,40}Restart|"
    r"FrequentUnregisterNetDevice|MemoryPressure|DiskPressure|PIDPressure|NetworkUnavailable"
)
_NVSENTINEL = re.compile(
    r"Gpu\w{1,20}Watch|GpuXidError|SysLogs\w{1,40}|(?:InfiniBand|Ethernet)(?:State|Degradation)Check"
)


def publisher_of(kind: str) -> str:
    """Who sets a condition of this type; empty for one that is not known."""
    if kind in PERMANENT or (_WATCHED.fullmatch(kind) and "Pressure" not in kind and kind != "NetworkUnavailable"):
        return DETECTOR
    if _WATCHED.fullmatch(kind):
        return "kubelet"
    return "NVSentinel" if _NVSENTINEL.fullmatch(kind) else ""


@dataclass(slots=True)
class ConditionWatch:
    """Used by the one thread that writes nodes."""

    session: Session
    judge: Judge
    _bad: dict[str, frozenset[str]] = field(default_factory=dict)  # node -> its conditions that were bad last

    def look(self, nodes: Sequence[NodeSeen]) -> None:
        heard = [(node.name, event) for node in nodes for event in self._of(node)]
        if heard:
            self.judge.hear(heard)

    def _of(self, node: NodeSeen) -> list[HealthEvent]:
        known = {kind: said for kind, said in node.conditions.items() if publisher_of(kind)}
        bad = frozenset(kind for kind, said in known.items() if said[0] == "True")
        good = frozenset(kind for kind, said in known.items() if said[0] == "False")
        before = self._bad.get(node.name)
        self._bad[node.name] = bad | ((before or frozenset()) - good)  # one that is unknown stays as it was
        events = [self._event(node, kind, before is not None) for kind in sorted(bad - (before or frozenset()))]
        over = good if before is None else good & before
        return events + [
            event for event in (self._event(node, kind, True) for kind in sorted(over)) if self._open(event)
        ]

    def _open(self, event: HealthEvent) -> bool:
        return (event.node_claims[0], "", event.cause) in self.judge.engine.findings.open

    def _event(self, node: NodeSeen, kind: str, fresh: bool) -> HealthEvent:
        status, reason, message = node.conditions[kind]
        now, action = self.session.clock.now(), PERMANENT.get(kind, MONITOR)
        return HealthEvent(
            origin="node-condition", id=f"{kind}/{status}/{now.isoformat()}", node_claims=(node.name,), check=kind,
            healthy=status == "False", at=now, publisher=publisher_of(kind), fatal=kind in PERMANENT,
            action=action if fresh else MONITOR, code=reason[:32], text=(message or reason)[:400],
        )  # fmt: skip
