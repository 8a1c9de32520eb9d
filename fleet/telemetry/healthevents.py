"""What other tools say of a node's health, in one form.

Decides what a CloudEvents 1.0 body (single, batch, or an event in the headers), the states of gpud and a webhook of
Alertmanager mean: which check, of which parts, healthy or not, since when, and whether its sender wants anything done.
A sender that does not say so wants to be watched only: the action is then `monitor`, and so is every alert's that
carries no `muster_action`. A sender that had no data has no verdict: it neither asks nor ends anything. Refuses nothing
silently: what cannot be read is counted by reason. Never raises.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

import orjson

from fleet.telemetry.claims import claims
from fleet.telemetry.kernellog import MAX_HOST, read_time
from fleet.telemetry.logrecords import plain

Origin = Literal["health-event", "alert", "node-condition"]
MAX_EVENTS, MAX_PARTS, MAX_TEXT = 10_000, 64, 400
MONITOR = "monitor"
ACTIONS = frozenset({"monitor", "restart_app", "ticket", "inspect", "contact_support", "reset_gpu", "reboot_node"})
# The recommended actions of NVSentinel, by name and number, and what they are called here.
_ASKED = {
    "COMPONENT_RESET": "reset_gpu", 2: "reset_gpu", "CONTACT_SUPPORT": "contact_support", 5: "contact_support",
    "RUN_FIELDDIAG": "inspect", 6: "inspect", "RESTART_VM": "reboot_node", 15: "reboot_node",
    "RESTART_BM": "reboot_node", 24: "reboot_node", "REPLACE_VM": "contact_support", 25: "contact_support",
    "RUN_DCGMEUD": "inspect", 26: "inspect",
}  # fmt: skip
_ACTING = ("EXECUTE_REMEDIATION", 1)  # processing strategies that want something done
_REPAIRS = {"REBOOT_SYSTEM": "reboot_node", "HARDWARE_INSPECTION": "inspect", "CHECK_USER_APP_AND_GPU": "restart_app"}
_VERDICTS = frozenset({"Healthy", "Degraded", "Unhealthy"})  # of gpud
_OF_TYPE = {"Fatal": "Unhealthy", "Critical": "Unhealthy", "Warning": "Degraded"}
_NO_DATA = frozenset({"DatasourceNoData", "DatasourceError"})  # alerts of Grafana about itself
_SLUG = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class HealthEvent:
    """One word on one check of one node. `parts` are (type, value) as the sender names them; none means the host."""

    origin: Origin
    id: str
    node_claims: tuple[str, ...]
    check: str
    healthy: bool
    at: datetime | None
    publisher: str = ""
    fatal: bool = False
    action: str = MONITOR
    code: str = ""
    text: str = ""
    parts: tuple[tuple[str, str], ...] = ()

    @property
    def cause(self) -> str:
        kind = {"health-event": "event", "alert": "alert", "node-condition": "condition"}[self.origin]
        slug = _SLUG.sub("-", self.check.lower()).strip("-")[:80]
        return f"{kind}-{slug or hashlib.sha256(self.check.encode()).hexdigest()[:12]}"  # a name may be all Hangul


@dataclass(slots=True)
class EventBatch:
    events: list[HealthEvent] = field(default_factory=list)
    rejected: Counter[str] = field(default_factory=Counter)

    def add(self, event: HealthEvent) -> None:
        """One more event, while there is room."""
        if len(self.events) < MAX_EVENTS:
            self.events.append(event)
        else:
            self.rejected["too_many"] += 1


def read_events(body: bytes, headers: dict[str, str]) -> EventBatch:
    """A body of the events door. `headers` are the `ce-` ones, without that prefix."""
    batch = EventBatch()
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError:
        batch.rejected["cut_json"] += 1
        return batch
    if headers.get("type"):
        whole = {**headers, "data": whole}
    for entry in whole if isinstance(whole, list) else [whole]:
        if not isinstance(entry, dict):
            batch.rejected["not_an_object"] += 1
        elif "specversion" in entry or "type" in entry:
            _cloud_event(entry, batch)
        elif "states" in entry or "events" in entry:
            _gpud(entry, batch)
        else:
            batch.rejected["unknown_event"] += 1
    return batch


def _cloud_event(entry: dict[str, Any], batch: EventBatch) -> None:
    data = entry.get("data")
    said = data.get("healthEvent", data) if isinstance(data, dict) else None
    if not isinstance(said, dict):
        batch.rejected["unknown_event"] += 1
        return
    if "states" in said:
        _gpud(said, batch)
        return
    node, check = _word(said, "nodeName", MAX_HOST), _word(said, "checkName")
    if not node or not check:
        batch.rejected["no_host" if check else "unknown_event"] += 1
        return
    at = _time(said.get("generatedTimestamp", entry.get("time")))
    wants = _scalar(said.get("processingStrategy")) in _ACTING
    asked = _scalar(said.get("recommendedAction"))
    codes = said.get("errorCode")
    event_id = _word(said, "id") or f"{_word(entry, 'source')}/{_word(entry, 'id')}"
    if at is None or event_id == "/":
        batch.rejected["bad_time" if at is None else "no_id"] += 1
        return
    batch.add(
        HealthEvent(
            origin="health-event",
            id=event_id[:200],
            node_claims=(node,),
            check=check,
            healthy=said.get("isHealthy") is True,
            at=at,
            publisher=_word(said, "agent") or _word(entry, "source"),
            fatal=said.get("isFatal") is True,
            action=_ASKED.get(asked, MONITOR) if wants else MONITOR,
            code=plain(str(_scalar(codes[0])))[:32] if isinstance(codes, list) and codes else "",
            text=_word(said, "message", MAX_TEXT),
            parts=tuple(_parts(said.get("entitiesImpacted"))),
        )
    )


def _parts(entities: Any) -> Iterator[tuple[str, str]]:
    for entity in entities[:MAX_PARTS] if isinstance(entities, list) else ():
        if isinstance(entity, dict):
            kind, value = _word(entity, "entityType"), _word(entity, "entityValue")
            if kind and value:
                yield kind, value


def _gpud(entry: dict[str, Any], batch: EventBatch) -> None:
    """gpud's states of a component: observed, because gpud suggests and does not ask."""
    node = next(filter(None, (_word(entry, key, MAX_HOST) for key in ("node", "machine_id", "machineID"))), "")
    states = entry.get("states") or entry.get("events")
    if not node or not isinstance(states, list):
        batch.rejected["no_host" if not node else "unknown_event"] += 1
        return
    for state in states:
        component = _word(entry, "component") or (_word(state, "component") if isinstance(state, dict) else "")
        at = _time(state.get("time")) if isinstance(state, dict) else None
        if at is None or not component:
            batch.rejected["bad_time" if component else "unknown_event"] += 1
            continue
        health = _word(state, "health") or _OF_TYPE.get(_word(state, "type"), "")
        if isinstance(state.get("healthy"), bool):  # its older word
            health = "Healthy" if state["healthy"] else "Unhealthy"
        if health not in _VERDICTS:  # still starting, or an event that is none
            batch.rejected["no_verdict"] += 1
            continue
        name = _word(state, "name")
        check = component if name in ("", component) else f"{component} {name}"
        batch.add(
            HealthEvent(
                origin="health-event", id=f"gpud/{node}/{check}/{at.isoformat()}/{health}", node_claims=(node,),
                check=check, healthy=health == "Healthy", at=at, publisher="gpud", fatal=health == "Unhealthy",
                text=_word(state, "reason", MAX_TEXT) or _word(state, "message", MAX_TEXT),
            )
        )  # fmt: skip


def read_alerts(body: bytes) -> EventBatch:
    """A webhook of Alertmanager, version 4, or of Grafana, which calls the same form version 1."""
    batch = EventBatch()
    try:
        whole = orjson.loads(body)
    except orjson.JSONDecodeError:
        batch.rejected["cut_json"] += 1
        return batch
    alerts = whole.get("alerts") if isinstance(whole, dict) else None
    if not isinstance(alerts, list) or str(_scalar(whole.get("version", "4"))) not in ("1", "4"):
        batch.rejected["unknown_event"] += 1
        return batch
    for alert in alerts:
        if isinstance(alert, dict):
            _alert(alert, batch)
        else:
            batch.rejected["not_an_object"] += 1
    return batch


def _alert(alert: dict[str, Any], batch: EventBatch) -> None:
    labels, notes = _texts(alert.get("labels")), _texts(alert.get("annotations"))
    name, begun = labels.get("alertname", ""), _time(alert.get("startsAt"))
    said = [name[:MAX_HOST] for name in claims(labels)]
    if not name or begun is None or not said:
        batch.rejected["no_host" if name and begun else "bad_time" if name else "unknown_event"] += 1
        return
    resolved = alert.get("status") == "resolved"
    blind = name in _NO_DATA or "grafana_state_reason" in notes  # Grafana had no data, or has the rule no longer
    if blind and resolved:
        batch.rejected["no_verdict"] += 1
        return
    at = (_time(alert.get("endsAt")) or begun) if resolved else begun
    action = MONITOR if blind else notes.get("muster_action") or labels.get("muster_action") or MONITOR
    key = next((key for key in ("UUID", "gpu_uuid", "device", "mountpoint", "gpu") if labels.get(key)), "")
    summary = notes.get("summary") or notes.get("description") or notes.get("message") or ""
    kind = {"UUID": "GPU_UUID", "gpu_uuid": "GPU_UUID", "gpu": "GPU"}.get(key, key)
    batch.add(
        HealthEvent(
            origin="alert", id=f"{_word(alert, 'fingerprint') or name}/{begun.isoformat()}/{resolved}",
            node_claims=tuple(said), check=name[:200], healthy=resolved, at=at, publisher="Alertmanager",
            fatal=labels.get("severity") == "critical", action=action if action in ACTIONS else MONITOR,
            text=summary[:MAX_TEXT], parts=((kind, labels[key][:200]),) if key else (),
        )
    )  # fmt: skip


def _texts(given: Any) -> dict[str, str]:
    return (
        {key: _clean(text) for key, text in given.items() if isinstance(text, str)} if isinstance(given, dict) else {}
    )


def _clean(text: str) -> str:
    return plain(text).strip()


def _scalar(value: Any) -> str | int:
    """A word or a number of an enumeration; empty for what is neither (true is not 1 here)."""
    return value if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _word(of: dict[str, Any], key: str, limit: int = 200) -> str:
    value = of.get(key)
    return _clean(value)[:limit] if isinstance(value, str) else ""


def _time(value: Any) -> datetime | None:
    if isinstance(value, dict):  # a protobuf Timestamp, spelled out
        value = value.get("seconds")
    if isinstance(value, str) and value.startswith("0001-"):  # Go's zero time
        return None
    return read_time(value)
