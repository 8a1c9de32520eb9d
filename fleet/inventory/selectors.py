"""Reads of what exists.

Decides nothing; gives processes and commands the rows they need in few queries. Refuses joins with health or lifecycle:
those live in readmodels.
"""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import QuerySet

from fleet.inventory.models import Cluster, Device, Node


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


def devices_of(node_ids_: Iterable[int]) -> QuerySet[Device]:
    return Device.objects.filter(node_id__in=list(node_ids_), gone_at=None).order_by("node_id", "kind", "index", "key")
