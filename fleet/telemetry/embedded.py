"""The past of a node from our own tables.

Decides from the length of the range what is read: samples up to two hours, beyond that ten-minute buckets, merged to at
most a few hundred rows; what is not rolled up yet is made of samples. Refuses to guess where neither is left.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from fleet.ports.history import Past, Rows, Whose
from fleet.telemetry import history
from fleet.telemetry.history import GPU_MEASURES, KEEP, SAMPLE_EVERY
from fleet.telemetry.models import NodeHistory, NodeRollup
from fleet.telemetry.rolling import BUCKET, HOUR, MEASURES, STATS, Bucket, roll, unroll

MAX_ROWS = 360
SLACK = timedelta(minutes=5)


class EmbeddedHistory:
    def past(self, whose: Whose, since: datetime, until: datetime, measures: Sequence[str] = ()) -> Past:
        wanted = tuple(measures) or MEASURES
        if until - since <= KEEP + SLACK:
            rows = history.read(whose.node_id, since)
            return Past([(at, _only(row, wanted)) for at, row in rows if at <= until], SAMPLE_EVERY, "embedded")
        step = step_for(since, until)
        buckets = [b for b in _buckets(whose.node_id, since, until, wanted) if since <= b.at <= until]
        mean, low, high = merged(buckets, step)
        return Past(mean, step.total_seconds(), "embedded", low, high)


def step_for(since: datetime, until: datetime) -> timedelta:
    """Whole buckets, so many that the range has at most MAX_ROWS."""
    return BUCKET * max(1, -(-(until - since) // (BUCKET * MAX_ROWS)))


def _only(row: dict[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name in wanted}


def _buckets(node_id: int, since: datetime, until: datetime, wanted: Sequence[str]) -> list[Bucket]:
    """Two queries: packed hours, and the minutes after the last of them."""
    rolled = NodeRollup.objects.filter(node_id=node_id, at__gte=since - HOUR, at__lte=until)
    hours = [(at, bytes(data)) for at, data in rolled.order_by("at").values_list("at", "data")]
    after = max(hours[-1][0] + HOUR if hours else since, since)
    fresh: dict[datetime, list[bytes]] = {}
    minutes = NodeHistory.objects.filter(node_id=node_id, at__gte=after, at__lte=until)
    for at, data in minutes.order_by("at", "id").values_list("at", "data"):
        fresh.setdefault(at.replace(minute=0, second=0, microsecond=0), []).append(bytes(data))
    hours += [(hour, roll(hour, raw)) for hour, raw in sorted(fresh.items())]
    return [bucket for hour, data in hours if data for bucket in unroll(hour, data, wanted)]


def merged(buckets: Iterable[Bucket], step: timedelta) -> tuple[Rows, Rows, Rows]:
    """(means, lows, highs), one row per step. Buckets of which nothing is known leave no row."""
    grouped: dict[float, list[Bucket]] = {}
    for bucket in buckets:
        if any((~np.isnan(values)).any() for values in bucket.values["mean"].values()):
            grouped.setdefault(bucket.at.timestamp() // step.total_seconds(), []).append(bucket)
    out: dict[str, list[tuple[datetime, dict[str, Any]]]] = {stat: [] for stat in STATS}
    reduce = {"mean": np.nanmean, "low": np.nanmin, "high": np.nanmax}
    for group in grouped.values():
        for stat in STATS:
            row: dict[str, Any] = {}
            for name in group[0].values[stat]:
                row[name] = _values(name, reduce[stat], [bucket.values[stat].get(name) for bucket in group])
            out[stat].append((group[0].at, row))
    return out["mean"], out["low"], out["high"]


def _values(name: str, reduce: Any, parts: Sequence[Any]) -> Any:
    width = max(len(part) for part in parts)
    if not width:
        return [] if name in GPU_MEASURES else None
    block = np.full((len(parts), width), np.nan)
    for index, part in enumerate(parts):
        block[index, : len(part)] = part
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        values = [None if value != value else round(value, 2) for value in reduce(block, axis=0).tolist()]
    return values if name in GPU_MEASURES else values[0]
