"""How many evictions a cluster's API server gets in a second, from all workers together.

Decides with a token bucket in the database, taken from once for a round of evictions. Refuses nothing for ever: what
does not fit now is told when it will. A rate of zero lifts the limit, and then nothing is read or written.
"""

from __future__ import annotations

import math
from datetime import datetime

from django.db import transaction

from fleet.lifecycle.models import EvictionBucket

BURST_SECONDS = 2.0
"""The bucket holds what two seconds bring, and at least one eviction."""


def take(cluster_id: int, wanted: int, per_second: float, now: datetime) -> tuple[int, float]:
    """(evictions that may go now, seconds until the next may): all of them, 0.0 when there is no limit."""
    if per_second <= 0 or wanted <= 0:
        return max(0, wanted), 0.0
    most = max(1.0, per_second * BURST_SECONDS)
    with transaction.atomic():
        EvictionBucket.objects.bulk_create(
            [EvictionBucket(cluster_id=cluster_id, tokens=most, at=now)], ignore_conflicts=True
        )
        row = EvictionBucket.objects.select_for_update().get(cluster_id=cluster_id)
        passed = max(0.0, (now - row.at).total_seconds())  # a clock that jumped back brings nothing
        tokens = min(most, row.tokens + passed * per_second)
        given = min(wanted, math.floor(tokens))
        EvictionBucket.objects.filter(pk=row.pk).update(tokens=tokens - given, at=now)
    return given, 0.0 if given == wanted else max(0.05, (1 - (tokens - given)) / per_second)
