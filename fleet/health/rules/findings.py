"""The open findings: what is wrong right now, and what it takes to say that it no longer is.

Decides when an observation is new (opened), more of the same (refreshed, at most every 30 s) or over (cleared). A
latched finding clears only on evidence: a boot or a remediation after its last sight. A passing event (an
application's Xid) expires. An after-effect of an open finding on the same device refreshes that one. Refuses history:
an observation older than the connection, the boot or the last remediation opens nothing and is counted.

Shared by the cycle's thread and the thread of kernel lines; the lock is held for one observation at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Any

from fleet.health.rules import dcgmcodes
from fleet.health.rules.types import Edge, NodeFacts

Key = tuple[str, str, str]  # node, device, cause
REFRESH_EVERY = timedelta(seconds=30)
# An observation that the named causes already explain when they are open on the same device.
EXPLAINED_BY: dict[str, tuple[str, ...]] = {
    "gpu-lost": ("xid-79",),
    "xid-79": ("gpu-lost",),
    "ecc-dbe": ("xid-48", "xid-95", "xid-94", "xid-140", "xid-172"),
    "xid-48": ("ecc-dbe",),
    "xid-171": ("xid-48", "ecc-dbe"),
    "xid-172": ("xid-48", "ecc-dbe"),
    **dict.fromkeys(("clock-hw-slowdown", "clock-power-brake", "clock-reasons"), ("clock-slowed",)),
    **dcgmcodes.explained_by(),
}
_RANK = {"degraded": 1, "unhealthy": 2}


@dataclass(slots=True)
class Finding:
    """`edge` is how it was opened, with the newest evidence; `boot_id` the boot in which it was last seen."""

    edge: Edge
    boot_id: str
    seen_at: datetime
    told_at: datetime
    count: int = 1
    expires: float = 0.0  # seconds without a repeat after which an event is over; 0: never


class Findings:
    def __init__(self) -> None:
        self.open: dict[Key, Finding] = {}
        self.by_node: dict[str, dict[Key, Finding]] = {}
        self.counts: Counter[str] = Counter()
        self.tune: Callable[[Edge, str], Edge | None] = lambda edge, pool: edge
        """What a site says of the edge's rule on that node; None where it is switched off."""
        self._urgent: set[str] = set()  # nodes whose findings changed
        self._later: set[str] = set()  # nodes whose baselines or damping changed
        self._lock = Lock()

    def remember(self, node: str) -> None:
        """A baseline or a damping of this node changed: worth saving when there is time."""
        with self._lock:
            self._later.add(node)

    def take_dirty(self, limit: int) -> set[str]:
        """Nodes to save: all with a changed finding, and up to `limit` others."""
        with self._lock:
            dirty, self._urgent = self._urgent, set()
            self._later -= dirty
            while self._later and limit > 0:
                dirty.add(self._later.pop())
                limit -= 1
            return dirty

    def observe(
        self, edge: Edge, facts: NodeFacts, at: datetime, expires: float = 0.0, current: bool = False
    ) -> list[Edge]:
        """Something bad was seen at `at`. `current`: a state that holds now, whenever it began, so never history."""
        tuned = self.tune(edge, facts.pool)
        if tuned is None:
            self.counts["switched_off"] += 1
            return []
        edge = tuned
        if not current and at < facts.horizon:
            self.counts["history"] += 1
            return []
        with self._lock:
            known = self.open.get((edge.node, edge.device, edge.cause)) or self._explaining(edge)
            if known is not None:
                return self._again(known, edge, facts, at)
            key = (edge.node, edge.device, edge.cause)
            finding = Finding(edge, facts.boot_id, at, edge.detected_at, expires=expires)
            self.open[key] = finding
            self.by_node.setdefault(edge.node, {})[key] = finding
            self._urgent.add(edge.node)
            return [edge]

    def _explaining(self, edge: Edge) -> Finding | None:
        for cause in EXPLAINED_BY.get(edge.cause, ()):
            known = self.open.get((edge.node, edge.device, cause))
            if known is not None:
                self.counts["after_effect"] += 1
                return known
        return None

    def _again(self, known: Finding, edge: Edge, facts: NodeFacts, at: datetime) -> list[Edge]:
        known.seen_at = max(known.seen_at, at)
        known.boot_id = facts.boot_id or known.boot_id
        known.count += 1
        asked = "recovery_line" in known.edge.evidence  # the driver's own request stands
        worse = _RANK[edge.severity] > _RANK[known.edge.severity] and not asked
        evidence = {**known.edge.evidence, **edge.evidence, "count": known.count}
        if edge.cause != known.edge.cause:
            evidence = {**known.edge.evidence, "count": known.count, "also": {edge.cause: edge.evidence}}
        changes: dict[str, Any] = {"evidence": evidence, "latched": known.edge.latched or edge.latched}
        if worse:
            changes |= {"severity": edge.severity, "action_class": edge.action_class}
            known.expires = 0.0 if edge.latched else known.expires
        known.edge = replace(known.edge, **changes)
        self._urgent.add(edge.node)
        if not worse and edge.detected_at - known.told_at < REFRESH_EVERY:
            return []
        known.told_at = edge.detected_at
        return [replace(known.edge, kind="refreshed", detected_at=edge.detected_at)]

    def ask(self, key: Key, action: Any, severity: Any, evidence: dict[str, Any], now: datetime) -> list[Edge]:
        """The hardware itself asks for an action: it outranks what the finding's table said."""
        with self._lock:
            known = self.open.get(key)
            if known is None:
                return []
            merged = {**known.edge.evidence, **evidence}
            known.edge = replace(known.edge, action_class=action, severity=severity, evidence=merged, latched=True)
            known.expires, known.told_at = 0.0, now
            self._urgent.add(key[0])
            return [replace(known.edge, kind="refreshed", detected_at=now)]

    def clear(self, key: Key, now: datetime, why: str) -> list[Edge]:
        """Evidence that it is over."""
        with self._lock:
            finding = self.open.pop(key, None)
            if finding is None:
                return []
            mine = self.by_node.get(key[0], {})
            mine.pop(key, None)
            if not mine:
                self.by_node.pop(key[0], None)
            self._urgent.add(key[0])
            return [replace(finding.edge, kind="cleared", detected_at=now, evidence={"cleared_by": why})]

    def sweep(self, nodes: Mapping[str, NodeFacts], now: datetime) -> list[Edge]:
        """Clear what a boot, a remediation or time has ended; forget nodes that are gone."""
        edges: list[Edge] = []
        for key, finding in list(self.open.items()):
            facts = nodes.get(key[0])
            if facts is None:
                edges += self.clear(key, now, "node_gone")
                continue
            event = finding.edge.latched or finding.expires > 0  # not a level, which its samples clear
            why = _ended(finding, facts) if event else ""
            if not why and finding.expires and (now - finding.seen_at).total_seconds() > finding.expires:
                why = "quiet"
            edges += self.clear(key, now, why) if why else []
        return edges

    def of_cause(self, cause: str) -> list[Key]:
        return [key for key in list(self.open) if key[2] == cause]

    def on(self, node: str, device: str) -> list[Finding]:
        return [finding for key, finding in list(self.by_node.get(node, {}).items()) if key[1] == device]

    # -- checkpoint -----------------------------------------------------------------------------------------------

    def export(self, node: str) -> list[dict[str, Any]]:
        with self._lock:
            return [_dump(finding) for finding in self.by_node.get(node, {}).values()]

    def load(self, node: str, dumped: list[dict[str, Any]]) -> None:
        with self._lock:
            for entry in dumped:
                finding = _restore(entry)
                key = (node, finding.edge.device, finding.edge.cause)
                self.open[key] = finding
                self.by_node.setdefault(node, {})[key] = finding


def _ended(finding: Finding, facts: NodeFacts) -> str:
    if facts.remediated_at is not None and facts.remediated_at > finding.seen_at:
        return "remediated"
    if facts.boot_at is None or facts.boot_at <= finding.seen_at:
        return ""
    return "new_boot" if facts.boot_id and facts.boot_id != finding.boot_id else ""


def _dump(finding: Finding) -> dict[str, Any]:
    edge = asdict(finding.edge)
    for name in ("first_bad_at", "detected_at"):
        edge[name] = edge[name].isoformat()
    return {
        "edge": edge,
        "boot_id": finding.boot_id,
        "seen_at": finding.seen_at.isoformat(),
        "told_at": finding.told_at.isoformat(),
        "count": finding.count,
        "expires": finding.expires,
    }


def _restore(entry: dict[str, Any]) -> Finding:
    edge = dict(entry["edge"])
    for name in ("first_bad_at", "detected_at"):
        edge[name] = datetime.fromisoformat(edge[name])
    seen, told = datetime.fromisoformat(entry["seen_at"]), datetime.fromisoformat(entry["told_at"])
    return Finding(Edge(**edge), entry["boot_id"], seen, told, entry["count"], entry["expires"])
