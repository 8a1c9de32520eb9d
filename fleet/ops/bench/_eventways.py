"""The ways in for the quality replay that bring other tools' judgements, and what Kubernetes says of a node.

Decides how each tool wraps its event, and gives it to the real readers: NVSentinel's CloudEvents (whole, and with its
attributes in the headers), gpud's states, Alertmanager's webhook, conditions of nodes. Refuses a network.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, cast

import orjson

from fleet.health.rules.types import Edge
from fleet.observer.judge import Judge
from fleet.observer.nodeconditions import ConditionWatch
from fleet.observer.session import Session
from fleet.ops.bench._faulty import Injected, Told
from fleet.ops.bench._healthy import Healthy
from fleet.ops.bench._ways import Way
from fleet.ports.cluster import NodeSeen
from fleet.telemetry.healthevents import EventBatch, HealthEvent, read_alerts, read_events


class Kubernetes(Way):
    """As facts of the node."""

    name = "kubernetes"
    told: ClassVar[Told] = "kubernetes"


class Events(Way):
    """As health events at the observer's doors."""

    name = "health_events"
    told: ClassVar[Told] = "event"

    def hear(self, one: Injected) -> list[Edge]:
        fleet = self.fleet
        form, check, acts = one.fault.event
        said = {"nvsentinel": _nvsentinel, "nvsentinel-headers": _headers, "gpud": _gpud, "alertmanager": _alert}
        edges: list[Edge] = []
        for event in said[form](one, check, acts, fleet.now.isoformat()).events:
            edges += fleet.engine.on_event(event, fleet.facts[event.node_claims[0]], fleet.now)
        return edges


def _health(one: Injected, check: str, acts: bool, at: str) -> dict[str, Any]:
    gpu = {"entityType": "GPU_UUID", "entityValue": f"GPU-{one.gpu}"}
    return {
        "version": 1, "agent": "gpu-health-monitor", "componentClass": "GPU", "checkName": check, "isFatal": acts,
        "isHealthy": False, "message": "a check of the driver failed", "errorCode": ["DCGM_FR_X"],
        "recommendedAction": "COMPONENT_RESET", "entitiesImpacted": [gpu, {"entityType": "GPU", "entityValue": "9"}],
        "generatedTimestamp": at, "nodeName": one.node,
        "processingStrategy": "EXECUTE_REMEDIATION" if acts else "UNSPECIFIED",
    }  # fmt: skip


def _nvsentinel(one: Injected, check: str, acts: bool, at: str) -> EventBatch:
    envelope = {"specversion": "1.0", "id": f"e-{one.number}", "source": "nvsentinel", "type": "health", "time": at}
    return read_events(orjson.dumps([{**envelope, "data": {"healthEvent": _health(one, check, acts, at)}}]), {})


def _headers(one: Injected, check: str, acts: bool, at: str) -> EventBatch:
    said = {"specversion": "1.0", "id": f"e-{one.number}", "source": "nvsentinel", "type": "health", "time": at}
    return read_events(orjson.dumps(_health(one, check, acts, at)), said)


def _gpud(one: Injected, check: str, acts: bool, at: str) -> EventBatch:
    state = {"name": check, "health": "Unhealthy", "reason": "errors since the boot", "time": at}
    return read_events(orjson.dumps({"machine_id": one.node, "component": check, "states": [state]}), {})


def _alert(one: Injected, check: str, acts: bool, at: str) -> EventBatch:
    notes = {"summary": "it fires"} | ({"muster_action": "inspect"} if acts else {})
    labels = {"alertname": check, "node": one.node, "severity": "critical"}
    alert = {"status": "firing", "labels": labels, "annotations": notes, "startsAt": at, "fingerprint": f"{one.number}"}
    return read_alerts(orjson.dumps({"version": "4", "status": "firing", "alerts": [alert]}))


class Conditions(Way):
    """As conditions of a node, through the watch that knows which are news."""

    name = "node_conditions"
    told: ClassVar[Told] = "condition"

    def __init__(self, fleet: Healthy) -> None:
        super().__init__(fleet)
        self.edges: list[Edge] = []
        judge = SimpleNamespace(engine=fleet.engine, hear=self._heard)
        session = SimpleNamespace(clock=fleet.clock)
        self.watch = ConditionWatch(cast(Session, session), cast(Judge, judge))
        self.watch.look([_seen(name, {"Ready": "True", "DiskPressure": "False"}) for name in fleet.names])

    def _heard(self, events: list[tuple[str, HealthEvent]]) -> None:
        for node, event in events:
            self.edges += self.fleet.engine.on_event(event, self.fleet.facts[node], self.fleet.now)

    def hear(self, one: Injected) -> list[Edge]:
        self.edges = []
        self.watch.look([_seen(one.node, {"Ready": "True", one.fault.event[1]: "True"})])
        return self.edges


def _seen(node: str, conditions: dict[str, str]) -> NodeSeen:
    said = {kind: (status, kind, "as its detector found") for kind, status in conditions.items()}
    return NodeSeen(
        name=node, uid=node, resource_version="1", unschedulable=False, ready=True, ready_reason="", ready_since=None,
        heartbeat_at=None, boot_id="b", machine_id="", system_uuid="", provider_id="", kernel="", os_image="",
        kubelet="", addresses=(), labels={}, annotations={}, taints=(), conditions=said, gpu_capacity=8,
        gpu_allocatable=8, created_at=None,
    )  # fmt: skip
