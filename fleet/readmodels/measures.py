"""What was measured of a node and of its peers lately.

Decides how many peers stand for a pool and how their spread is told: the 10th and the 90th percentile, minute by
minute. Refuses to read a whole pool for one chart: a band of two dozen nodes tells the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np
import orjson

from fleet.inventory.models import Node
from fleet.telemetry import history
from fleet.telemetry.models import NodeHistory

Rows = Sequence[tuple[datetime, dict[str, Any]]]
Band = list[tuple[datetime, float, float]]
PEERS = 24
USE_EVERY = 5  # minutes
USE_SPAN = timedelta(hours=2)
WRITTEN_WITHIN = timedelta(minutes=2)  # after its end a minute has been written
Name = tuple[str, str]  # cluster, node


def read(node_id: int, since: datetime) -> Rows:
    """Samples of one node, oldest first. One query."""
    return history.read(node_id, since)


def use_of(names: Sequence[Name], visible: frozenset[str] | None, now: datetime) -> dict[Name, list[float | None]]:
    """Per node the mean use of its GPUs in percent, every five minutes of two hours, None for a gap; only of nodes in
    the clusters `visible` (None: all) that measured something. Two queries for any number of nodes: every fifth minute
    is read, because a line of a hundred points tells a glance no more than one of two dozen."""
    nodes = Node.objects.filter(gone_at=None, cluster__removed_at=None, name__in=[name for _cluster, name in names])
    if visible is not None:
        nodes = nodes.filter(cluster__name__in=visible)
    wanted = set(names)
    of = {pk: (c, n) for pk, c, n in nodes.values_list("pk", "cluster__name", "name") if (c, n) in wanted}
    now -= WRITTEN_WITHIN
    last = now.replace(minute=now.minute - now.minute % USE_EVERY, second=0, microsecond=0)
    size = int(USE_SPAN / timedelta(minutes=USE_EVERY))
    rows = NodeHistory.objects.filter(
        node_id__in=list(of), at__gt=last - USE_SPAN, at__lte=last, at__minute__in=range(0, 60, USE_EVERY)
    )
    found: dict[Name, list[float | None]] = {}
    for node_id, at, data in rows.values_list("node_id", "at", "data"):
        values = [v for sample in orjson.loads(bytes(data)).get("gpu_util", ()) for v in sample if v is not None]
        if values:
            place = size - 1 - int((last - at) / timedelta(minutes=USE_EVERY))
            found.setdefault(of[node_id], [None] * size)[place] = sum(values) / len(values)
    return found


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
