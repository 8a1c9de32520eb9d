"""Health events of other tools to findings.

Decides which device an event means, whether it is news, and what it opens or ends. Events come at least once and in
any order: each id counts once, and of one (node, check, part) nothing older than the newest seen does. A healthy word
ends what the same check opened on the same part, and nothing that our own rules found. Refuses old events: what is more
than five minutes old when it comes (an alert: fifteen) is history and is never acted on. Refuses to call a node
unhealthy by an event whose sender wants to be watched only.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeVar

from fleet.health.rules.findings import Findings, Key
from fleet.health.rules.types import ActionClass, Edge, NodeFacts, Rule, Severity
from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.healthevents import MONITOR, HealthEvent

RULES: tuple[Rule, ...] = (
    Rule(
        "health-event", "Another tool reports a fault", ("CloudEvents of NVSentinel", "states of gpud"), "health_event",
        "unhealthy", "monitor", "the event's own recommendation where its sender wants it carried out; else watched",
        latched=True,
    ),
    Rule(
        "alert", "An alert fires", ("Alertmanager webhook",), "health_event", "unhealthy", "monitor",
        "the alert's annotation muster_action; without one it is watched", latched=True,
    ),
    Rule(
        "node-condition", "A condition of the node is bad", ("Node.status.conditions",), "kubernetes", "unhealthy",
        "monitor", "node-problem-detector's permanent problems and NVSentinel's checks", latched=True,
    ),
)  # fmt: skip
Name = TypeVar("Name")
Value = TypeVar("Value")
OLD = timedelta(minutes=5)
OLD_ALERT = timedelta(
    minutes=15
)  # Alertmanager may hold an alert back for its group's interval, five minutes by default
FAR_FUTURE = timedelta(minutes=5)
KEPT_IDS, KEPT_TIMES = 50_000, 100_000
TITLE = "%(publisher)s reports %(check)s: %(text)s"
_UUIDS, _ADDRESSES, _INDICES = ("GPU_UUID", "UUID"), ("PCI", "PCI_BUS_ID"), ("GPU", "GPU_INDEX")
_TITLES = {"alert": "Alert %(check)s fires: %(text)s", "node-condition": "Node condition %(check)s: %(text)s"}


class HealthEvents:
    def __init__(self, rules: Mapping[str, Rule], frame: Frame, findings: Findings) -> None:
        self.rules, self.frame, self.findings = rules, frame, findings
        self._ids: dict[tuple[str, str], None] = {}
        self._newest: dict[Key, datetime] = {}

    def take(self, event: HealthEvent, facts: NodeFacts, now: datetime) -> list[Edge]:
        counts = self.findings.counts
        counts[f"event_{event.origin}"] += 1
        if (facts.name, event.id) in self._ids:
            counts["repeated_event"] += 1
            return []
        _remember(self._ids, (facts.name, event.id), None, KEPT_IDS)
        at = event.at or now
        if at > now + FAR_FUTURE:
            counts["future_event"] += 1
            return []
        at = min(at, now)
        edges: list[Edge] = []
        for device in self._devices(event, facts.name):
            edges += self._one(event, device, facts, at, now)
        return edges

    def _one(self, event: HealthEvent, device: str, facts: NodeFacts, at: datetime, now: datetime) -> list[Edge]:
        key = (facts.name, device, event.cause)
        newest = self._newest.get(key)
        if newest is not None and at < newest:
            self.findings.counts["late_event"] += 1
            return []
        _remember(self._newest, key, at, KEPT_TIMES)
        if event.healthy:
            return self._over(event, key, at, now)
        if at < facts.horizon or now - at > (OLD_ALERT if event.origin == "alert" else OLD):
            self.findings.counts["history"] += 1
            return []
        return self.findings.observe(self._edge(event, device, facts, at, now), facts, at)

    def _over(self, event: HealthEvent, key: Key, at: datetime, now: datetime) -> list[Edge]:
        """The same check on the same part, or, when no part is named, on every part of the node."""
        node, device, cause = key
        over = [key] if device else [known for known in self.findings.of_cause(cause) if known[0] == node]
        edges: list[Edge] = []
        for known in over:
            finding = self.findings.open.get(known)
            if finding is not None and finding.edge.rule_id == event.origin and at >= finding.seen_at:
                edges += self.findings.clear(known, now, "healthy_again")
        return edges

    def _edge(self, event: HealthEvent, device: str, facts: NodeFacts, at: datetime, now: datetime) -> Edge:
        rule = self.rules[event.origin]
        wanted = event.action if event.action != MONITOR else rule.action_class
        action: ActionClass = wanted  # type: ignore[assignment]  # events carry only action classes
        if action == "reset_gpu" and not device:
            action = "reboot_node"  # a component that is not named cannot be reset
        severity: Severity = "unhealthy" if event.fatal and action != MONITOR else "degraded"
        args = {"publisher": event.publisher or "Another tool", "check": event.check, "text": event.text or event.code}
        return Edge(
            "opened", rule.id, facts.name, device, event.code, event.cause, severity, action,
            _TITLES.get(event.origin, TITLE), {"device": device, "node": facts.name, **args}, at, now, rule.source,
            rule.latched,
            {"event": event.id, "check": event.check, "publisher": event.publisher, "message": event.text},
        )  # fmt: skip

    def _devices(self, event: HealthEvent, node: str) -> list[str]:
        """The keys of the parts. One GPU may be named three ways in one event; the surest of them counts."""
        parts = [(kind.upper(), value) for kind, value in event.parts]
        for kinds in (_UUIDS, _ADDRESSES, _INDICES):
            gpus = [value for kind, value in parts if kind in kinds]
            if gpus:
                keys = [self._gpu(node, kinds, value) for value in gpus]
                break
        else:
            keys = [f"{kind.lower()}:{value}" for kind, value in parts]
        return list(dict.fromkeys(key[:200] for key in keys)) or [""]

    def _gpu(self, node: str, kinds: tuple[str, ...], value: str) -> str:
        if kinds is _UUIDS:
            return value
        if kinds is _ADDRESSES:
            known = self.frame.gpu_at(node, value)
            return known.key if known else f"pci:{names.pci(value)}"
        same = (d.key for d in self.frame.devices_on(node) if d.kind == "gpu" and d.attrs.get("index") == value)
        return next(same, f"gpu:{value}")


def _remember(kept: dict[Name, Value], key: Name, value: Value, limit: int) -> None:
    """The newest `limit` of them."""
    kept.pop(key, None)
    kept[key] = value
    if len(kept) > limit:
        del kept[next(iter(kept))]
