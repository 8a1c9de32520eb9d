"""Writes of signals, incidents and verdicts.

Decides how edges become rows: one open signal per finding, one open incident per cause, the same edges applied twice
being the same rows. Refuses to clear an incident by itself: whoever knows the workflows asks for its resolution.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.health import correlation, correlation_again, correlation_shared, modes, selectors, sharing
from fleet.health.correlation_shared import Shape
from fleet.health.limits import LIMITS
from fleet.health.models import Incident, NodeVerdict, Signal
from fleet.health.rules.types import Edge
from fleet.health.work import ACTOR, BATCH, Work
from fleet.inventory import lease
from fleet.inventory.models import Node


@transaction.atomic
def apply_edges(
    cluster_id: int,
    edges: Sequence[Edge],
    nodes: Mapping[str, int],
    epoch: int,
    now: datetime,
    journal: list[audit.Entry] | None = None,
    shape: Shape | None = None,
    folded: list[int] | None = None,
) -> list[int]:
    """Store what the rules found; the ids of incidents that are new or ask for more than before.

    With a `journal` the audit entries are appended to it instead of written: the chain's lock comes last, and the
    caller has more to do in this transaction. With a `shape` what many nodes have in common becomes one shared
    incident; the nodes' own that became part of one are appended to `folded`, and ask for nothing any more.
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
    if shape is not None and work.undecided:
        sharing.share(work, shape, LIMITS)
    for node_id, signal, edge in work.undecided:
        if signal.incident is None:  # nothing shared explains it
            _open_own(work, node_id, signal, edge, shape)
    _store(work)
    if folded is not None:
        folded += work.folded
    if journal is None:
        audit.record(audit.chain_of(cluster_id), work.entries, now)
    else:
        journal += work.entries
    return [incident.pk for incident in work.opened if incident.node_id] + list(work.worsened)


def _load(cluster_id: int, ids: set[int], now: datetime) -> Work:
    rows = list(Node.objects.filter(pk__in=ids))
    incidents: dict[int, list[Incident]] = {}
    for incident in selectors.open_incidents(cluster_id).filter(node_id__in=ids).order_by("id").select_for_update():
        if incident.node_id is not None:
            incidents.setdefault(incident.node_id, []).append(incident)
    signals = {(s.node_id, s.rule, s.device, s.code): s for s in selectors.open_signals(ids).order_by("id")}
    shared = selectors.open_incidents(cluster_id).filter(node=None).order_by("id").select_for_update()
    return Work(cluster_id, now, {node.pk: node for node in rows}, signals, incidents, {i.pk: i for i in shared})


def _clear(work: Work, node_id: int, edge: Edge) -> None:
    """The finding is over, in whichever form it was observed."""
    for key, signal in list(work.signals.items()):
        if (signal.node_id, signal.device, signal.cause) == (node_id, edge.device, edge.cause):
            signal.cleared_at = edge.detected_at
            del work.signals[key]
            if signal.pk is not None:
                work.touched[signal.pk] = signal


def _observe(work: Work, node_id: int, edge: Edge) -> None:
    key = (node_id, edge.rule_id, edge.device[:200], edge.code[:32])
    signal = work.signals.get(key)
    if signal is None:
        signal = Signal(
            cluster_id=work.cluster_id, node_id=node_id, rule=edge.rule_id, device=key[2], code=key[3],
            first_bad_at=edge.first_bad_at, opened_at=edge.detected_at, mode=edge.mode,
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


def _place(work: Work, node_id: int, signal: Signal, edge: Edge) -> None:
    """Find or open the incident that the signal is a sign of. A rule in shadow only shows what it would have seen."""
    if edge.shadow:
        signal.incident, signal.evidence = None, {**signal.evidence, "shadow": True}
        return
    here = work.incidents.setdefault(node_id, [])
    if signal.incident_id is not None and edge.kind == "refreshed":
        incident = next((i for i in here if i.pk == signal.incident_id), None)
        if incident is None:  # resolved meanwhile by whoever may decide so
            return
    else:
        incident = correlation.belongs_to(edge, here)
    if incident is None:
        if signal.incident_id not in work.shared:  # else told again, and known to be shared
            signal.incident = None
            work.undecided.append((node_id, signal, edge))
        return
    wider = modes.reaches(incident, signal) and sharing.widen(incident, edge)
    worse = modes.join(incident, signal, edge, wider)
    if incident.plan_after is not None and correlation_shared.is_own(edge.source, edge.device):
        incident.plan_after, worse = None, True  # the node itself says so now: no need to wait for company
    if (worse or wider) and incident.pk is not None:
        work.worsened[incident.pk] = incident
    signal.incident = incident


def _open_own(work: Work, node_id: int, signal: Signal, edge: Edge, shape: Shape | None) -> None:
    """The fault is this node's own, unless company comes while it settles."""
    here = work.incidents.setdefault(node_id, [])
    incident = correlation.belongs_to(edge, here)  # another of this batch may have opened it
    if incident is None:
        recurs = sharing.recurs(work, signal)
        if not correlation.asks_for_action(edge.action_class) and not recurs:
            return
        incident = _open(work, node_id, edge)
        incident.mode = signal.mode
        if shape is not None:
            wait = correlation_shared.settles(sharing.sign_of(signal, work.nodes[node_id]), LIMITS)
            incident.plan_after = work.now + timedelta(seconds=wait) if wait else None
        if recurs:
            incident.action_class = "contact_support"
            incident.evidence["recurring"] = f"{correlation_again.RECURS} times within a day on {edge.device or 'it'}"
        here.append(incident)
        signal.incident = incident
        _adopt(work, incident)
    else:
        wider = modes.reaches(incident, signal) and sharing.widen(incident, edge)
        worse = modes.join(incident, signal, edge, wider)
        if (wider or worse) and incident.pk is not None:
            work.worsened[incident.pk] = incident
    signal.incident = incident


def _open(work: Work, node_id: int, edge: Edge) -> Incident:
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
        boot_id=work.nodes[node_id].boot_id if node_id in work.nodes else "",
        first_bad_at=min(edge.first_bad_at, edge.detected_at),
        detected_at=edge.detected_at,
        evidence={**edge.evidence, "said": {"id": edge.title, "args": dict(edge.args)}},
    )
    work.opened.append(incident)
    return incident


def _adopt(work: Work, incident: Incident) -> None:
    """After-effects may be seen before their fault: take in what stood alone beside it."""
    for signal in work.signals.values():
        if signal.incident_id is None and signal.incident is None and signal.node_id == incident.node_id:
            near = abs(signal.first_bad_at - incident.first_bad_at) <= correlation.AFTER_EFFECT
            if signal.device and signal.device == incident.device and near:
                signal.incident = incident
                modes.join(incident, signal, signal)
                if signal.pk is not None:
                    work.touched[signal.pk] = signal


_WORSENS = ("severity", "action_class", "mode", "rule", "plan_after", "device", "scope", "title", "evidence")


def _store(work: Work) -> None:
    Incident.objects.bulk_create(work.opened, batch_size=BATCH)
    sharing.store(work)
    Incident.objects.bulk_update(work.worsened.values(), _WORSENS, batch_size=BATCH)
    for signal in (*work.new_signals, *work.touched.values()):
        signal.incident = signal.incident  # takes over the key that the incident has now
    Signal.objects.bulk_create(work.new_signals, batch_size=BATCH)
    columns = ["cause", "source", "title", "severity", "action_class", "evidence", "seen_at", "cleared_at", "incident"]
    Signal.objects.bulk_update(work.touched.values(), columns, batch_size=BATCH)
    notices = []
    for action, incidents in (("incident.open", work.opened), ("incident.worsen", work.worsened.values())):
        for incident in incidents:
            name = work.name(incident.node_id)
            detail = {"title": incident.title, "cause": incident.cause, "device": incident.device}
            detail["action_class"] = incident.action_class
            work.entries.append(audit.Entry(ACTOR, action, f"incident:{incident.pk}", node=name, detail=detail))
            notices.append(outbox.Notice("incident", str(incident.pk), name))
    for node_id in {s.node_id for s in (*work.new_signals, *work.touched.values())}:
        notices.append(outbox.Notice("node", str(node_id), work.name(node_id)))
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


def settled(ids: Iterable[int]) -> None:
    """They stayed alone: from now on they may be planned."""
    Incident.objects.filter(pk__in=list(ids)).update(plan_after=None)


def calm(ids: Iterable[int], now: datetime) -> list[int]:
    """Of incidents that are quiet, those that may end; a flapping one stays open and says until when."""
    rows = list(Incident.objects.filter(pk__in=list(ids)).order_by("id"))
    since = now - correlation_again.FLAP_WINDOW - correlation_again.QUIET
    times: dict[tuple[int, str, str], list[tuple[datetime, datetime | None]]] = {}
    signals = Signal.objects.filter(node_id__in={row.node_id for row in rows if row.node_id}, opened_at__gte=since)
    for node_id, device, cause, opened, cleared in signals.values_list(
        "node_id", "device", "cause", "opened_at", "cleared_at"
    ):
        times.setdefault((node_id, device, cause), []).append((opened, cleared))
    held = []
    for row in rows:
        mine = times.get((row.node_id or 0, row.device, row.cause), [])
        last = max((cleared for _, cleared in mine if cleared is not None), default=now)
        until = correlation_again.held_open_until((opened for opened, _ in mine), last, now) if mine else None
        if until != row.open_until:
            row.open_until = until
            held.append(row)
    Incident.objects.bulk_update(held, ["open_until"], batch_size=BATCH)
    return [row.pk for row in rows if row.open_until is None]


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
