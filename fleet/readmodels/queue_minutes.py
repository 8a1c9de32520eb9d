"""How full a cluster was and how long gangs waited, over time.

Decides the buckets: the mean of what is counted, the longest of the waits, at most about two hundred points whatever
the range. One query. Refuses to fill gaps: a bucket without a minute is not there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Avg, DateTimeField, DurationField, F, Func, Max, Value

from fleet.gangs.models import QueueMinute

POINTS = 180
EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 240, 360)  # minutes


@dataclass(frozen=True, slots=True)
class Bucket:
    """GPUs are means over the bucket; waits in seconds, None where no gang waited."""

    at: datetime
    total: float
    out: float
    used: float
    idle: float
    waiting: float
    wanted: float
    median: float | None
    longest: float | None
    free_nodes: float
    packed_nodes: float

    @property
    def works(self) -> float:
        """Share of all GPUs that are used and not held for nothing."""
        return (self.used - self.idle) / self.total if self.total else 0.0

    @property
    def held(self) -> float:
        return self.idle / self.total if self.total else 0.0


def step_of(span: timedelta) -> timedelta:
    need = span.total_seconds() / 60 / POINTS
    return timedelta(minutes=next((one for one in STEPS if one >= need), STEPS[-1]))


def read(cluster_id: int, since: datetime, until: datetime) -> list[Bucket]:
    step = step_of(until - since)
    bucket = Func(
        Value(step, output_field=DurationField()), F("at"), Value(EPOCH),
        function="date_bin", output_field=DateTimeField(),
    )  # fmt: skip
    rows = (
        QueueMinute.objects.filter(cluster_id=cluster_id, at__gte=since, at__lte=until)
        .annotate(bucket=bucket)
        .values_list("bucket")
        .annotate(
            total=Avg("gpus_total"),
            out=Avg("gpus_out"),
            used=Avg("gpus_used"),
            idle=Avg("gpus_idle"),
            waiting=Avg("gangs_waiting"),
            wanted=Avg("gpus_wanted"),
            median=Max("wait_median"),
            longest=Max("wait_longest"),
            free_nodes=Avg("full_nodes_free"),
            packed_nodes=Avg("full_nodes_packed"),
        )
        .order_by("bucket")
    )
    return [Bucket(*row) for row in rows]
