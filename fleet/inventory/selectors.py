"""Reads of what exists.

Decides nothing; gives processes and commands the rows they need in few queries. Refuses joins with health or lifecycle:
those live in readmodels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db.models import QuerySet

from fleet.inventory.models import Alias, Cluster, Device, Node


class UnknownCluster(LookupError):
    """No cluster of that name is registered."""


def active_clusters() -> QuerySet[Cluster]:
    """Every registered cluster, by name."""
    return Cluster.objects.filter(removed_at=None).order_by("name")


def cluster_named(name: str) -> Cluster:
    """The registered cluster of that name; UnknownCluster says which there are."""
    cluster = Cluster.objects.filter(name=name, removed_at=None).first()
    if cluster is None:
        known = ", ".join(active_clusters().values_list("name", flat=True)) or "none"
        raise UnknownCluster(f"There is no cluster {name!r}. Registered: {known}.")
    return cluster


def node_ids(cluster_id: int) -> dict[str, int]:
    """name -> id of every node that is there."""
    return dict(Node.objects.filter(cluster_id=cluster_id, gone_at=None).values_list("name", "id"))


def successors(cluster_id: int, since: Mapping[int, datetime]) -> dict[int, str]:
    """node id -> the name under which the same machine has joined since then. Absent: it has not, or none can tell.

    Vendors ship boards that share a system UUID, so more than one other node of it tells nothing.
    """
    rows = Alias.objects.filter(cluster_id=cluster_id, kind="system_uuid")
    mine = dict(rows.filter(node_id__in=since).values_list("node_id", "value"))
    others: dict[str, list[tuple[int, str, datetime]]] = {}
    named = rows.filter(value__in=set(mine.values()), node__gone_at=None)
    for value, node_id, name, seen in named.values_list("value", "node_id", "node__name", "node__first_seen_at"):
        others.setdefault(value, []).append((node_id, name, seen))
    found = {}
    for node_id, value in mine.items():
        same = [(name, seen) for other, name, seen in others.get(value, []) if other != node_id]
        if len(same) == 1 and same[0][1] >= since[node_id]:
            found[node_id] = same[0][0]
    return found


def devices_of(node_ids_: Iterable[int]) -> QuerySet[Device]:
    return Device.objects.filter(node_id__in=list(node_ids_), gone_at=None).order_by("node_id", "kind", "index", "key")
