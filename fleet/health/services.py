"""Writes of signals, incidents and verdicts.

Decides how edges become rows: one open signal per finding, one open incident per cause, the same edges applied twice
being the same rows. Refuses to clear an incident by itself: whoever knows the workflows asks for its resolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.health import correlation, selectors
from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.health.rules.types import Edge
from fleet.inventory import lease
from fleet.inventory.models import Node

ACTOR = "muster:observer"
BATCH = 1000
Key = tuple[int, str, str, str]


@dataclass(slots=True)
class _Work:
    """The rows of the nodes concerned, as they become."""

    cluster_id: int
    now: datetime
    boots: dict[int, str]
    names: dict[int, str]
    signals: dict[Key, Signal]
    incidents: dict[int, list[Incident]]
    new_signals: list[Signal] = field(default_factory=list)
    touched: dict[int, Signal] = field(default_factory=dict)
    opened: list[Incident] = field(default_factory=list)
    worsened: dict[int, Incident] = field(default_factory=dict)
    entries: list[audit.Entry] = field(default_factory=list)


@transaction.atomic
def apply_edges(
    cluster_id: int,
    edges: Sequence[Edge],
    nodes: Mapping[str, int],
    epoch: int,
    now: datetime,
    journal: list[audit.Entry] | None = None,
) -> list[int]:
    """Store what the rules found; the ids of incidents that are new or ask for more than before.

    With a `journal` the audit entries are appended to it instead of written: the chain's lock comes last, and the
    caller has more to do in this transaction.
    """
    lease.guard(cluster_id, epoch)
    known = [edge for edge in edges if edge.node in nodes]
    if not known:
        return []
    work = _load(cluster_id, {nodes[edge.node] for edge in known}, now)
    for edge in known:
        node_id = nodes[edge.node]
        if edge.kind == "cleared":
            _clear(work, node_id, edge)
        else:
            _observe(work, node_id, edge)
    _store(work)
    if journal is None:
        audit.record(audit.chain_of(cluster_id), work.entries, now)
    else:
        journal += work.entries
    return [incident.pk for incident in work.opened] + list(work.worsened)


def _load(cluster_id: int, ids: set[int], now: datetime) -> _Work:
    rows = list(Node.objects.filter(pk__in=ids).values_list("id", "name", "boot_id"))
    incidents: dict[int, list[Incident]] = {}
    for incident in selectors.open_incidents(cluster_id).filter(node_id__in=ids).order_by("id").select_for_update():
        if incident.node_id is not None:
            incidents.setdefault(incident.node_id, []).append(incident)
    signals = {(s.node_id, s.rule, s.device, s.code): s for s in selectors.open_signals(ids).order_by("id")}
    boots = {pk: boot for pk, _, boot in rows}
    return _Work(cluster_id, now, boots, {pk: name for pk, name, _ in rows}, signals, incidents)


def _clear(work: _Work, node_id: int, edge: Edge) -> None:
    """The finding is over, in whichever form it was observed."""
    for key, signal in list(work.signals.items()):
        if (signal.node_id, signal.device, signal.cause) == (node_id, edge.device, edge.cause):
            signal.cleared_at = edge.detected_at
            del work.signals[key]
            if signal.pk is not None:
                work.touched[signal.pk] = signal


def _observe(work: _Work, node_id: int, edge: Edge) -> None:
    key = (node_id, edge.rule_id, edge.device[:200], edge.code[:32])
    signal = work.signals.get(key)
    if signal is None:
        signal = Signal(
            cluster_id=work.cluster_id, node_id=node_id, rule=edge.rule_id, device=key[2], code=key[3],
            first_bad_at=edge.first_bad_at, opened_at=edge.detected_at,
        )  # fmt: skip
        work.signals[key] = signal
        work.new_signals.append(signal)
    elif signal.pk is not None:
        work.touched[signal.pk] = signal
    signal.cause, signal.source, signal.title = edge.cause, edge.source, edge.text[:300]
    signal.severity, signal.action_class = edge.severity, edge.action_class
    signal.evidence = {**edge.evidence, "said": {"id": edge.title, "args": dict(edge.args)}}
    signal.seen_at = edge.detected_at
    _place(work, node_id, signal, edge)


def _place(work: _Work, node_id: int, signal: Signal, edge: Edge) -> None:
    """Find or open the incident that the signal is a sign of."""
    here = work.incidents.setdefault(node_id, [])
    if signal.incident_id is not None and edge.kind == "refreshed":
        incident = next((i for i in here if i.pk == signal.incident_id), None)
        if incident is None:  # resolved meanwhile by whoever may decide so
            return
    else:
        incident = correlation.belongs_to(edge, here)
    if incident is None:
        if not correlation.asks_for_action(edge.action_class):
            return
        incident = _open(work, node_id, edge)
        here.append(incident)
        _adopt(work, incident)
    elif correlation.worse(edge, incident):
        incident.severity, incident.action_class = edge.severity, edge.action_class
        if incident.pk is not None:
            work.worsened[incident.pk] = incident
    signal.incident = incident


def _open(work: _Work, node_id: int, edge: Edge) -> Incident:
    incident = Incident(
        cluster_id=work.cluster_id,
        node_id=node_id,
        scope="device" if edge.device else "node",
        device=edge.device[:200],
        cause=edge.cause,
        rule=edge.rule_id,
        severity=edge.severity,
        action_class=edge.action_class,
        title=edge.text[:300],
        boot_id=work.boots.get(node_id, ""),
        first_bad_at=min(edge.first_bad_at, edge.detected_at),
        detected_at=edge.detected_at,
        evidence={**edge.evidence, "said": {"id": edge.title, "args": dict(edge.args)}},
    )
    work.opened.append(incident)
    return incident


def _adopt(work: _Work, incident: Incident) -> None:
    """After-effects may be seen before their fault: take in what stood alone beside it."""
    for signal in work.signals.values():
        if signal.incident_id is None and signal.incident is None and signal.node_id == incident.node_id:
            near = abs(signal.first_bad_at - incident.first_bad_at) <= correlation.AFTER_EFFECT
            if signal.device and signal.device == incident.device and near:
                signal.incident = incident
                if signal.pk is not None:
                    work.touched[signal.pk] = signal


def _store(work: _Work) -> None:
    Incident.objects.bulk_create(work.opened, batch_size=BATCH)
    Incident.objects.bulk_update(work.worsened.values(), ["severity", "action_class"], batch_size=BATCH)
    for signal in (*work.new_signals, *work.touched.values()):
        signal.incident = signal.incident  # takes over the key that the incident has now
    Signal.objects.bulk_create(work.new_signals, batch_size=BATCH)
    columns = ["cause", "source", "title", "severity", "action_class", "evidence", "seen_at", "cleared_at", "incident"]
    Signal.objects.bulk_update(work.touched.values(), columns, batch_size=BATCH)
    notices = []
    for action, incidents in (("incident.open", work.opened), ("incident.worsen", work.worsened.values())):
        for incident in incidents:
            name = work.names.get(incident.node_id or 0, "")
            detail = {"title": incident.title, "cause": incident.cause, "device": incident.device}
            detail["action_class"] = incident.action_class
            work.entries.append(audit.Entry(ACTOR, action, f"incident:{incident.pk}", node=name, detail=detail))
            notices.append(outbox.Notice("incident", str(incident.pk), name))
    for node_id in {s.node_id for s in (*work.new_signals, *work.touched.values())}:
        notices.append(outbox.Notice("node", str(node_id), work.names.get(node_id, "")))
    outbox.publish(work.cluster_id, notices, work.now)


@transaction.atomic
def resolve_incidents(ids: Iterable[int], resolution: str, now: datetime, by: str = ACTOR) -> list[int]:
    """End open incidents, saying why; those that were open. Must be the last thing its transaction writes."""
    rows = list(
        Incident.objects.select_for_update(of=("self",))
        .filter(pk__in=list(ids), state=Incident.OPEN)
        .select_related("node")
        .order_by("id")
    )
    for incident in rows:
        incident.state, incident.resolved_at, incident.resolution = Incident.RESOLVED, now, resolution[:200]
    Incident.objects.bulk_update(rows, ["state", "resolved_at", "resolution"], batch_size=BATCH)
    by_cluster: dict[int, list[Incident]] = {}
    for incident in rows:
        by_cluster.setdefault(incident.cluster_id, []).append(incident)
    for cluster_id, mine in sorted(by_cluster.items()):
        named = [(i, i.node.name if i.node else "") for i in mine]
        outbox.publish(cluster_id, [outbox.Notice("incident", str(i.pk), name) for i, name in named], now)
        entries = [
            audit.Entry(by, "incident.resolve", f"incident:{i.pk}", node=name, detail={"resolution": resolution})
            for i, name in named
        ]
        audit.record(audit.chain_of(cluster_id), entries, now)
    return [incident.pk for incident in rows]


def ensure_verdicts(cluster_id: int, node_ids: Iterable[int], now: datetime) -> None:
    """A new node is unknown until something is measured."""
    rows = [
        NodeVerdict(node_id=pk, cluster_id=cluster_id, reason="Nothing was measured yet.", since=now) for pk in node_ids
    ]
    NodeVerdict.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)


@dataclass(frozen=True, slots=True)
class VerdictRow:
    """One node's verdict as it is stored."""

    node_id: int
    verdict: str
    reason: str
    rule: str
    since: datetime
    devices: Mapping[str, Any]
    telemetry_at: datetime | None


@transaction.atomic
def store_verdicts(cluster_id: int, rows: Sequence[VerdictRow], told: Iterable[int], epoch: int, now: datetime) -> None:
    """Write verdicts in bulk; `told` are the nodes whose pages should hear of it."""
    if not rows:
        return
    lease.guard(cluster_id, epoch)
    NodeVerdict.objects.bulk_create(
        [
            NodeVerdict(
                node_id=row.node_id, cluster_id=cluster_id, verdict=row.verdict, reason=row.reason[:300],
                rule=row.rule[:64], since=row.since, devices=dict(row.devices), telemetry_at=row.telemetry_at,
            )
            for row in rows
        ],
        batch_size=BATCH,
        update_conflicts=True,
        unique_fields=["node"],
        update_fields=["verdict", "reason", "rule", "since", "devices", "telemetry_at"],
    )  # fmt: skip
    ids = list(told)
    if len(ids) > BATCH:
        outbox.publish(cluster_id, [outbox.Notice("fleet", str(cluster_id))], now)
    elif ids:
        names = Node.objects.filter(pk__in=ids).values_list("id", "name")
        outbox.publish(cluster_id, [outbox.Notice("node", str(pk), name) for pk, name in names], now)
