"""Writes of what exists, as observed.

Decides how nodes, their aliases, devices and workloads are kept as the cluster tells them: in bulk, in a fixed number
of queries however many nodes there are, writing only what changed. Refuses to judge health and to touch lifecycle: the
result says which nodes joined, left, went or came back, and the caller acts on it in the same transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection, transaction

from fleet.bus import outbox
from fleet.inventory import facts, lease, noderows
from fleet.inventory.models import Alias, Cluster, Device, Node, Pool
from fleet.inventory.topology import placement
from fleet.ports.cluster import NodeSeen

BATCH = 1000


@dataclass(slots=True)
class SyncResult:
    """Ids by what happened to them. `uncordoned`: our hold annotation is there, yet the node takes work again."""

    ids: dict[str, int] = field(default_factory=dict)
    created: list[int] = field(default_factory=list)
    changed: list[int] = field(default_factory=list)
    managed: list[int] = field(default_factory=list)  # of the nodes seen
    regrouped: list[int] = field(default_factory=list)  # joined or left the managed set
    gone: list[int] = field(default_factory=list)
    back: list[int] = field(default_factory=list)
    uncordoned: list[int] = field(default_factory=list)
    rebooted: list[int] = field(default_factory=list)
    updated: list[tuple[int, str]] = field(default_factory=list)  # another kernel, image, kubelet or driver: in words
    renamed: bool = False  # aliases changed


@transaction.atomic
def sync_nodes(
    cluster: Cluster, seen: Sequence[NodeSeen], names: frozenset[str] | None, now: datetime, epoch: int
) -> SyncResult:
    """Bring rows to what was seen. `names` is given after a full list: whatever is missing from it is gone."""
    lease.guard(cluster.pk, epoch)
    how = facts.Reading(cluster.selector, cluster.label_keys, _ensure_pools(cluster, seen))
    result = SyncResult()
    fresh: list[Node] = []
    dirty: list[Node] = []
    columns = set(facts.SOFT)
    old_rows = {n.name: n for n in Node.objects.filter(cluster=cluster, name__in=[s.name for s in seen])}
    for item in seen:
        old = old_rows.get(item.name)
        values = facts.values_of(item, old, how, now)
        if old is None:
            fresh.append(Node(cluster=cluster, name=item.name, first_seen_at=now, **values))
            continue
        result.ids[item.name] = old.pk
        if not old.uid:  # the inventory expected it
            result.created.append(old.pk)
        if values["managed"]:
            result.managed.append(old.pk)
        changes = facts.hard_changes(old, values)
        _sort_out(result, old, values, changes)
        if changes or facts.soft_is_due(old, values):
            for name, value in values.items():
                setattr(old, name, value)
            dirty.append(old)
            columns.update(changes)
    _create(result, fresh)
    if dirty:
        noderows.update(dirty, columns, BATCH)
    if names is not None:
        result.gone = _mark_gone(cluster.pk, names, now)
    _refresh_aliases(cluster.pk, seen, result)
    _tell(cluster.pk, result, now)
    return result


def _ensure_pools(cluster: Cluster, seen: Sequence[NodeSeen]) -> dict[str, int]:
    """Pools appear as nodes name them."""
    wanted = {place.pool for s in seen if (place := placement(s.labels, cluster.label_keys)).pool}
    known = dict(Pool.objects.filter(cluster=cluster).values_list("name", "id"))
    missing = sorted(wanted - known.keys())
    if missing:
        Pool.objects.bulk_create([Pool(cluster=cluster, name=name) for name in missing], ignore_conflicts=True)
        known = dict(Pool.objects.filter(cluster=cluster).values_list("name", "id"))
    return known


def _sort_out(result: SyncResult, old: Node, values: Mapping[str, object], changes: Sequence[str]) -> None:
    if not changes:
        return
    result.changed.append(old.pk)
    if not old.uid:
        return
    if "gone_at" in changes:
        result.back.append(old.pk)
    if "managed" in changes:
        result.regrouped.append(old.pk)
    if old.boot_id and "boot_id" in changes:
        result.rebooted.append(old.pk)
    result.updated += [(old.pk, what) for what in facts.updates(old, values)]
    if values["hold_value"] and not values["unschedulable"] and {"unschedulable", "hold_value"} & set(changes):
        result.uncordoned.append(old.pk)


def _create(result: SyncResult, fresh: list[Node]) -> None:
    for node in Node.objects.bulk_create(fresh, batch_size=BATCH):
        result.ids[node.name] = node.pk
        result.created.append(node.pk)
        if node.managed:
            result.managed.append(node.pk)


def _mark_gone(cluster_id: int, names: frozenset[str], now: datetime) -> list[int]:
    there = Node.objects.filter(cluster_id=cluster_id, gone_at=None).values_list("id", "name")
    gone = [pk for pk, name in there if name not in names]
    Node.objects.filter(pk__in=gone).update(gone_at=now, ready=None, ready_reason="Gone")
    return gone


def mark_gone(cluster_id: int, names: Sequence[str], now: datetime, epoch: int) -> list[int]:
    """Nodes whose deletion the watch told. Returns their ids."""
    with transaction.atomic():
        lease.guard(cluster_id, epoch)
        rows = Node.objects.filter(cluster_id=cluster_id, name__in=list(names), gone_at=None)
        gone = list(rows.values_list("id", flat=True))
        Node.objects.filter(pk__in=gone).update(gone_at=now, ready=None, ready_reason="Gone")
        _tell(cluster_id, SyncResult(gone=gone), now)
        return gone


def _refresh_aliases(cluster_id: int, seen: Sequence[NodeSeen], result: SyncResult) -> None:
    """What the API server says replaces what it said; imported names stay."""
    wanted = {(result.ids[item.name], kind, value) for item in seen for kind, value in facts.aliases_of(item)}
    if not wanted:
        result.renamed = bool(result.gone)
        return
    rows = Alias.objects.filter(node_id__in=list(result.ids.values()), kind__in=facts.NODE_ALIASES)
    present = {(n, k, v): pk for pk, n, k, v in rows.values_list("id", "node_id", "kind", "value")}
    stale = [pk for key, pk in present.items() if key not in wanted]
    new = [Alias(cluster_id=cluster_id, node_id=n, kind=k, value=v) for n, k, v in sorted(wanted - present.keys())]
    if stale:
        Alias.objects.filter(pk__in=stale).delete()
    Alias.objects.bulk_create(new, batch_size=5 * BATCH, ignore_conflicts=True)
    result.renamed = bool(stale or new or result.gone or result.back)


def _tell(cluster_id: int, result: SyncResult, now: datetime) -> None:
    ids = [*result.created, *result.changed, *result.gone]
    if len(ids) > BATCH:  # a first sync is one piece of news, not ten thousand
        outbox.publish(cluster_id, [outbox.Notice("fleet", str(cluster_id))], now)
        return
    names = dict(Node.objects.filter(pk__in=ids).values_list("id", "name")) if ids else {}
    outbox.publish(cluster_id, [outbox.Notice("node", str(pk), names.get(pk, "")) for pk in ids], now)


@dataclass(frozen=True, slots=True)
class DeviceSeen:
    """A part as an exporter tells it."""

    node_id: int
    kind: str
    key: str
    index: int | None = None
    serial: str = ""
    pci: str = ""
    model: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)


@transaction.atomic
def sync_devices(cluster_id: int, seen: Sequence[DeviceSeen], now: datetime, epoch: int) -> int:
    """Upsert what is new or differs; never retire a part because a scrape lacks it. Returns the rows written."""
    if not seen:
        return 0
    lease.guard(cluster_id, epoch)
    rows = [
        Device(
            node_id=d.node_id, kind=d.kind, key=d.key[:200], index=d.index, serial=d.serial[:100], pci=d.pci[:32],
            model=d.model[:100], versions=dict(d.versions), first_seen_at=now,
        )
        for d in {(d.node_id, d.kind, d.key[:200]): d for d in seen}.values()
    ]  # fmt: skip
    Device.objects.bulk_create(
        rows,
        batch_size=5 * BATCH,
        update_conflicts=True,
        unique_fields=["node", "kind", "key"],
        update_fields=["index", "serial", "pci", "model", "versions", "gone_at"],
    )
    models = {d.node_id: d.model for d in seen if d.kind == "gpu" and d.model}
    counts: dict[int, int] = {}
    for d in seen:
        counts[d.node_id] = counts.get(d.node_id, 0) + (d.kind == "gpu")
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE inventory_node AS n SET gpu_model = v.model, gpu_expected = greatest(n.gpu_expected, v.gpus)
               FROM unnest(%s::bigint[], %s::text[], %s::int[]) AS v(id, model, gpus)
               WHERE n.id = v.id AND (n.gpu_model <> v.model OR n.gpu_expected IS NULL)""",
            [list(models), [m[:100] for m in models.values()], [counts[n] for n in models]],
        )
    return len(rows)


@transaction.atomic
def set_workloads(cluster_id: int, loads: Mapping[int, tuple[int, str]], epoch: int) -> int:
    """How many unfinished workload pods run on each node, and of which gang. Returns the rows that changed."""
    if not loads:
        return 0
    lease.guard(cluster_id, epoch)
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE inventory_node AS n SET pods = v.pods, gang = v.gang
               FROM unnest(%s::bigint[], %s::int[], %s::text[]) AS v(id, pods, gang)
               WHERE n.id = v.id AND (n.pods, n.gang) IS DISTINCT FROM (v.pods, v.gang)""",
            [list(loads), [pods for pods, _ in loads.values()], [gang[:300] for _, gang in loads.values()]],
        )
        return int(cursor.rowcount)
