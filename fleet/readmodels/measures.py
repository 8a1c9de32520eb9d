"""What was measured of a node and of its peers lately.

Decides how many peers stand for a pool and how their spread is told: the 10th and the 90th percentile, minute by
minute. Refuses to read a whole pool for one chart: a band of two dozen nodes tells the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import numpy as np
import orjson

from fleet.inventory.models import Node
from fleet.telemetry import history
from fleet.telemetry.models import NodeHistory

Rows = Sequence[tuple[datetime, dict[str, Any]]]
Band = list[tuple[datetime, float, float]]
PEERS = 24


def read(node_id: int, since: datetime) -> Rows:
    """Samples of one node, oldest first. One query."""
    return history.read(node_id, since)


def peer_band(node: Node, measure: str, since: datetime) -> Band:
    """(minute, p10, p90) of `measure` over every device of up to PEERS other nodes of its gang, else of its pool. One
    query. A gang works in step, so whoever leaves its band is worth a look; nodes of a pool do different work."""
    if node.gang:
        mates = Node.objects.filter(cluster_id=node.cluster_id, gang=node.gang, gpu_model=node.gpu_model)
    elif node.pool_id is not None:
        mates = Node.objects.filter(pool_id=node.pool_id)
    else:
        return []
    others = mates.filter(gone_at=None).exclude(pk=node.pk).order_by("pk")
    rows = NodeHistory.objects.filter(node_id__in=others.values("pk")[:PEERS], at__gte=since)
    minutes: dict[datetime, list[np.ndarray]] = defaultdict(list)
    for at, data in rows.values_list("at", "data"):
        found = orjson.loads(bytes(data)).get(measure)
        if found:
            minutes[at].append(np.array(found, dtype=float).ravel())
    band = []
    for at in sorted(minutes):
        values = np.concatenate(minutes[at])
        values = values[~np.isnan(values)]
        if len(values):
            low, high = np.percentile(values, (10, 90))
            band.append((at, float(low), float(high)))
    return band
