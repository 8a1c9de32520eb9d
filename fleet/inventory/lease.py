"""The lease of a cluster's observer, and the fence that each of its writes passes.

Decides who may write for a cluster: whoever raised `epoch` last. Refuses a write of anybody else by LeaseLost, also
when the loser does not know yet that it lost. The lease is taken only when it ran out or was released; a restart waits
like a stranger, because the old process may still be alive somewhere.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import connection, transaction
from django.db.models import F, Q

from fleet.inventory.models import Cluster

TTL = timedelta(seconds=6)


class LeaseLost(Exception):
    """Another observer has taken the cluster over; whoever gets this stops."""


def take(cluster_id: int, owner: str, now: datetime, ttl: timedelta = TTL) -> int | None:
    """Take a free or run-out lease; the new epoch, or None while somebody else holds it.

    An end further away than any lease lasts comes from a clock that stepped, and counts as run out.
    """
    free = Q(observer="") | Q(observer_until=None) | Q(observer_until__lt=now) | Q(observer_until__gt=now + 10 * ttl)
    with transaction.atomic():
        taken = Cluster.objects.filter(free, pk=cluster_id, removed_at=None).update(
            observer=owner, observer_until=now + ttl, epoch=F("epoch") + 1
        )
        return Cluster.objects.values_list("epoch", flat=True).get(pk=cluster_id) if taken else None


def renew(cluster_id: int, epoch: int, now: datetime, ttl: timedelta = TTL) -> bool:
    """Keep it; False when another took it over or the cluster was removed."""
    rows = Cluster.objects.filter(pk=cluster_id, epoch=epoch, removed_at=None).exclude(observer="")
    return bool(rows.update(observer_until=now + ttl))


def release(cluster_id: int, epoch: int) -> None:
    """Let the next one in at once."""
    Cluster.objects.filter(pk=cluster_id, epoch=epoch).update(observer="", observer_until=None)


def guard(cluster_id: int, epoch: int) -> None:
    """First statement of each writing transaction of an observer: raises LeaseLost unless `epoch` is current.

    It locks the cluster's row until the commit. That orders an observer's own transactions, so that the one which
    saves the checkpoint never has to raise a shared lock, and lets no successor in before the commit.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("the fence belongs into the transaction that it guards")
    found = Cluster.objects.select_for_update(no_key=True).filter(pk=cluster_id).values_list("epoch", flat=True).first()
    if found != epoch:
        raise LeaseLost(f"epoch {epoch} is over; the cluster is at {found}")
