"""Writes of shared incidents.

Decides, with the pure rules of `correlation_shared`, which new signs join an open shared incident or make one, and
which incidents of single nodes become part of it; and when what is left of one is the nodes' own again. Refuses to
disrupt: a shared incident has no node, so nothing can be planned for it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from django.db.models import Max, Q

from fleet.audit import services as audit
from fleet.bus import outbox
from fleet.health import correlation, correlation_again, selectors
from fleet.health import correlation_shared as shared
from fleet.health.correlation_shared import Group, Limits, Place, Shape, Sign
from fleet.health.models import Incident, IncidentMember, Signal
from fleet.health.rules.types import Edge
from fleet.health.work import ACTOR, BATCH, Work
from fleet.inventory.models import Node

NEVER_ALONE = frozenset({"telemetry-stale"})
"""Checks that ask nothing of one node, but tell of a shared cause when many fail."""


def sign_of(signal: Signal, node: Node) -> Sign:
    server = shared.server_of(signal.cause, signal.device, signal.evidence.get("server"))
    cable = signal.evidence.get("cable")
    leaf = str(cable.get("switch", "")) if isinstance(cable, dict) else ""  # each rail has a leaf of its own
    return Sign(
        node=node.name, rule=signal.rule, cause=signal.cause, device=signal.device, code=signal.code,
        source=signal.source, at=signal.opened_at, leaf=leaf or node.leaf, rack=node.rack, domain=node.nvlink_domain,
        server=server,
    )  # fmt: skip


FABRIC_TITLE = "NVLink errors on several parts of the node: suspect its NVSwitch or baseboard"


def widen(incident: Incident, edge: Edge) -> bool:
    """An NVLink fault that more than one part of the node shows is no GPU's own: all of them are reset with it."""
    if not correlation.widens(edge, incident):
        return False
    parts = [incident.device, edge.device]
    incident.device, incident.scope, incident.title = "", "node", FABRIC_TITLE
    incident.severity, incident.action_class = "unhealthy", "reboot_node"
    said = {"id": FABRIC_TITLE, "args": {}}
    incident.evidence = {**incident.evidence, "said": said, "parts": parts}
    return True


def place_of(incident: Incident) -> Place:
    return incident.scope, incident.place, incident.cause


def recurs(work: Work, signal: Signal) -> bool:
    """Has the same fault of the same part come five times within a day? One query for the whole batch."""
    if work.history is None:
        since = work.now - correlation_again.RECUR_WINDOW
        ids = {node_id for node_id, _, _ in work.undecided}
        rows = Signal.objects.filter(node_id__in=ids, opened_at__gte=since)
        work.history = {}
        for node_id, device, cause, at in rows.values_list("node_id", "device", "cause", "opened_at"):
            work.history.setdefault((node_id, device, cause, ""), []).append(at)
    times = work.history.get((signal.node_id, signal.device, signal.cause, ""), [])
    return correlation_again.recurs([*times, signal.opened_at], work.now)


def share(work: Work, shape: Shape, limits: Limits) -> None:
    """Give the signs that no incident of their node explains to a shared incident, where there is one."""
    signs: dict[Sign, list[Signal]] = {}
    for _, signal, edge in work.undecided:
        if signal.cleared_at is None and _may_share(edge.action_class, edge.rule_id):
            found = sign_of(signal, work.nodes[signal.node_id])
            if shared.places_of(found):
                signs.setdefault(found, []).append(signal)
    if not signs:
        return
    joined = _last_joined(work)
    for incident in work.shared.values():
        last = joined.get(incident.pk, incident.detected_at)
        for found in [found for found in signs if shared.joins(found, place_of(incident), last, limits)]:
            for signal in signs.pop(found):
                _join(work, incident, signal)
    _group(work, signs, shape, limits)


def _may_share(action_class: str, rule: str) -> bool:
    return correlation.asks_for_action(action_class) or rule in NEVER_ALONE


def _last_joined(work: Work) -> dict[int, datetime]:
    if not work.shared:
        return {}
    rows = IncidentMember.objects.filter(incident_id__in=list(work.shared)).values_list("incident_id")
    return dict(rows.annotate(Max("joined_at")))


def _join(work: Work, incident: Incident, signal: Signal) -> None:
    signal.incident = incident
    work.touch(signal)
    work.members.append((incident, signal.node_id))


def _group(work: Work, signs: dict[Sign, list[Signal]], shape: Shape, limits: Limits) -> None:
    if not signs:
        return
    for signal in _company(work, limits):
        found = sign_of(signal, work.nodes.get(signal.node_id) or signal.node)
        if shared.places_of(found):
            signs.setdefault(found, []).append(signal)
    open_there = {place_of(incident): incident for incident in work.shared.values()}
    for group in shared.group(signs, shape, limits, work.now):
        signals = [signal for found in group.signs for signal in signs[found]]
        incident = open_there.get((group.scope, group.place[:253], group.family[:64]))
        if incident is None:  # else a second wave of what is still open: one place has one incident
            incident = _incident(work, group, signals, limits)
            _suspect_change(incident, group, shape, limits)
            work.opened.append(incident)
        before = {signal.incident_id for signal in signals if signal.incident_id is not None}
        for signal in signals:
            if signal.node_id not in work.nodes:
                work.nodes[signal.node_id] = signal.node
            _join(work, incident, signal)
        _fold(work, incident, before, {signal.pk for signal in signals if signal.pk is not None})


def _company(work: Work, limits: Limits) -> list[Signal]:
    """Open and recent signs that were taken for a node's own so far, on the nodes of this batch and on all others."""
    since = work.now - timedelta(seconds=limits.window)
    here = [
        signal
        for signal in work.signals.values()
        if signal.pk is not None and signal.opened_at >= since and signal.incident_id not in work.shared
    ]
    undecided = {id(signal) for _, signal, _ in work.undecided}
    rows = Signal.objects.filter(cluster_id=work.cluster_id, cleared_at=None, opened_at__gte=since)
    rows = rows.filter(
        ~Q(source="kernel_log") | Q(cause="xid-74") | Q(cause__startswith="sxid") | Q(cause="mount-hung")
    )
    rows = rows.filter(Q(incident=None) | Q(incident__node__isnull=False)).exclude(node_id__in=list(work.nodes))
    others = list(rows.select_related("node"))
    return [
        signal
        for signal in (*here, *others)
        if id(signal) not in undecided and _may_share(signal.action_class, signal.rule)
    ]


def _incident(work: Work, group: Group, signals: list[Signal], limits: Limits) -> Incident:
    place = (group.scope, group.place, group.family)
    nodes = group.nodes
    local = _local(work, {signal.node_id for signal in signals}, (group.scope, group.place), limits)
    blame = shared.blamed(local, local)
    text, args = shared.title(place, len(nodes), blame)
    worst = max(signals, key=lambda signal: correlation.rank(signal.severity, signal.action_class))
    rules = sorted({signal.rule for signal in signals})
    evidence = {"said": {"id": text, "args": args}, "checks": rules, "nodes_at_first": nodes[:100]}
    if blame is not None:
        evidence["blamed"] = {"node": blame[0], "cause": blame[1]}
    return Incident(
        cluster_id=work.cluster_id, node=None, scope=group.scope, place=group.place[:253], cause=group.family[:64],
        rule=worst.rule, severity=worst.severity, action_class="inspect", title=(text % args)[:300],
        first_bad_at=min(min(signal.first_bad_at for signal in signals), work.now), detected_at=work.now,
        evidence=evidence,
    )  # fmt: skip


def _suspect_change(incident: Incident, group: Group, shape: Shape, limits: Limits) -> None:
    """Many nodes that fail a check whose rule, or whose own software, was just changed: look at the change first."""
    if incident.scope != shared.DETECTOR:
        return
    changed = shape.changed.get(incident.place) or shared.update_of(group.nodes, shape, limits)
    if changed:
        count = len(incident.evidence["nodes_at_first"])
        text, args = shared.title(place_of(incident), count, None, changed)
        incident.title = (text % args)[:300]
        incident.evidence |= {"said": {"id": text, "args": args}, "reason": "detector_changed", "changed": changed}


def _local(work: Work, node_ids: set[int], of: tuple[str, str], limits: Limits) -> dict[str, str]:
    """Nodes of an NVLink domain with a fault of their own: node -> its cause. One may show nothing but that fault."""
    scope, place = of
    if scope != shared.DOMAIN:
        return {}
    since = work.now - timedelta(seconds=limits.window)
    near = Q(node__nvlink_domain=place, opened_at__gte=since) | Q(node_id__in=node_ids)
    rows = Signal.objects.filter(near, cluster_id=work.cluster_id, cleared_at=None, cause__in=correlation.LOCAL_CAUSES)
    found = dict(rows.values_list("node__name", "cause"))
    for signal in work.new_signals:
        if work.nodes[signal.node_id].nvlink_domain == place and signal.cause in correlation.LOCAL_CAUSES:
            found[work.name(signal.node_id)] = signal.cause
    return found


def _fold(work: Work, incident: Incident, ids: Collection[int], taken: set[int]) -> None:
    """Nodes' own incidents, all of whose open signs are now the shared one's, become part of it."""
    kept = Signal.objects.filter(incident_id__in=list(ids), cleared_at=None).exclude(pk__in=taken)
    others = set(kept.values_list("incident_id", flat=True))
    rows = Incident.objects.select_for_update(of=("self",)).filter(
        pk__in=[pk for pk in ids if pk not in others], state=Incident.OPEN, node__isnull=False
    )
    for own in rows.order_by("id"):
        own.state, own.resolved_at, own.plan_after = Incident.RESOLVED, work.now, None
        work.parts.append((own, incident))
        here = work.incidents.get(own.node_id or 0, [])
        here[:] = [other for other in here if other.pk != own.pk]


def store(work: Work) -> None:
    """Members, parts and the count in the title; after the incidents themselves have their ids."""
    if not work.members:
        return
    rows = [IncidentMember(incident=i, node_id=pk, joined_at=work.now) for i, pk in dict.fromkeys(work.members)]
    IncidentMember.objects.bulk_create(rows, batch_size=BATCH, ignore_conflicts=True)
    for own, incident in work.parts:
        own.part_of, own.resolution = incident, f"Part of {incident.label}, which many nodes share."
        work.entries.append(
            audit.Entry(
                ACTOR, "incident.fold", f"incident:{own.pk}", node=work.name(own.node_id), detail={"into": incident.pk}
            )
        )
    fields = ["state", "resolved_at", "resolution", "part_of", "plan_after"]
    Incident.objects.bulk_update([own for own, _ in work.parts], fields, batch_size=BATCH)
    known = {incident.pk: incident for incident, _ in work.members if incident not in work.opened}
    for incident in known.values():
        _retitle(incident)
    Incident.objects.bulk_update(known.values(), ["title", "evidence"], batch_size=BATCH)
    told = {incident.pk: incident for incident, _ in work.members}
    notices = [outbox.Notice("incident", str(pk)) for pk in told]
    notices += [outbox.Notice("incident", str(own.pk), work.name(own.node_id)) for own, _ in work.parts]
    outbox.publish(work.cluster_id, notices, work.now)


def _retitle(incident: Incident) -> None:
    blame = incident.evidence.get("blamed")
    text, args = shared.title(
        place_of(incident),
        incident.members.count(),
        (blame["node"], blame["cause"]) if blame else None,
        incident.evidence.get("changed", ""),
    )
    incident.title = (text % args)[:300]
    incident.evidence = {**incident.evidence, "said": {"id": text, "args": args}}


def dissolve(cluster_id: int, shape: Shape, limits: Limits, now: datetime) -> tuple[list[int], list[audit.Entry]]:
    """Shared incidents that only few nodes are left of end; what is left is those nodes' own. Ids to be planned."""
    made: list[Incident] = []
    entries: list[audit.Entry] = []
    quiet = now - timedelta(seconds=limits.linger)
    rows = (
        selectors.open_incidents(cluster_id).filter(node=None, detected_at__lte=quiet).select_for_update(of=("self",))
    )
    for incident in rows.order_by("id"):
        signals = list(Signal.objects.filter(incident=incident, cleared_at=None).select_related("node"))
        last = Signal.objects.filter(incident=incident).aggregate(at=Max("cleared_at"))["at"]
        nodes = [signal.node.name for signal in signals]
        known = {incident.place: incident.evidence["changed"]} if incident.evidence.get("changed") else {}
        as_then = replace(shape, changed=known)
        if not signals or (last and last > quiet) or shared.still_shared(place_of(incident), nodes, as_then, limits):
            continue
        made += _own_again(signals, now)
        text = f"Only {len(set(nodes))} of its nodes are left: theirs alone now."
        incident.state, incident.resolved_at, incident.resolution = Incident.RESOLVED, now, text
        incident.save(update_fields=["state", "resolved_at", "resolution"])
        entries.append(audit.Entry(ACTOR, "incident.resolve", f"incident:{incident.pk}", detail={"resolution": text}))
        outbox.publish(cluster_id, [outbox.Notice("incident", str(incident.pk))], now)
    for own in made:
        detail = {"title": own.title, "cause": own.cause, "device": own.device, "action_class": own.action_class}
        name = own.node.name if own.node else ""
        entries.append(audit.Entry(ACTOR, "incident.open", f"incident:{own.pk}", node=name, detail=detail))
    outbox.publish(cluster_id, [outbox.Notice("incident", str(i.pk), i.node.name if i.node else "") for i in made], now)
    return [incident.pk for incident in made], entries


def _own_again(signals: list[Signal], now: datetime) -> list[Incident]:
    made = []
    for signal in signals:
        signal.incident = None
        if correlation.asks_for_action(signal.action_class):
            key = {"node": signal.node, "device": signal.device, "cause": signal.cause, "state": Incident.OPEN}
            values = {
                "cluster_id": signal.cluster_id, "scope": "device" if signal.device else "node", "rule": signal.rule,
                "severity": signal.severity, "action_class": signal.action_class, "title": signal.title,
                "boot_id": signal.node.boot_id, "first_bad_at": signal.first_bad_at, "detected_at": now,
                "evidence": signal.evidence, "mode": signal.mode,
            }  # fmt: skip
            signal.incident, fresh = Incident.objects.get_or_create(defaults=values, **key)
            made += [signal.incident] if fresh else []
    Signal.objects.bulk_update(signals, ["incident"], batch_size=BATCH)
    return made
