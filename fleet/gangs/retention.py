"""How long what is known of gangs is kept.

Decides that a gang which is gone goes after a month with its timeline and its conditions, a minute of the queues after
three, an ending after half a year, and that a gang which lives keeps its timeline as long as minutes are kept. Refuses
to take what is still true, and more than a portion of rows at once.
"""

from __future__ import annotations

from datetime import datetime

from django.db.models import Exists, Model, OuterRef, QuerySet

from fleet.gangs.models import Ending, GangCondition, GangMoment, GangRow, QueueMinute
from fleet.gangs.services import ENDINGS_KEPT, KEEP, MINUTES_KEPT

PORTION = 5_000
PORTIONS = 10
"""Of each table in one call; the next call goes on."""


def retain(now: datetime) -> int:
    """Delete what is too old, some rows at a time; how many went. Idempotent."""
    lives = GangRow.objects.filter(cluster_id=OuterRef("cluster_id"), key=OuterRef("gang_key"), gone_at=None)
    old = (
        GangMoment.objects.filter(at__lt=now - KEEP).filter(~Exists(lives)),
        GangMoment.objects.filter(at__lt=now - MINUTES_KEPT),
        GangCondition.objects.filter(ended_at__lt=now - KEEP),
        GangRow.objects.filter(gone_at__lt=now - KEEP),
        QueueMinute.objects.filter(at__lt=now - MINUTES_KEPT),
        Ending.objects.filter(at__lt=now - ENDINGS_KEPT),
    )
    return sum(_delete(rows) for rows in old)


def _delete(rows: QuerySet[Model]) -> int:
    """In portions, each a transaction of its own, so that nobody waits for a lock for long."""
    gone = 0
    for _ in range(PORTIONS):
        ids = list(rows.order_by("pk").values_list("pk", flat=True)[:PORTION])
        rows.model._default_manager.filter(pk__in=ids).delete()
        gone += len(ids)
        if len(ids) < PORTION:
            break
    return gone
