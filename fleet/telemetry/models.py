"""Persistence of counted trouble with sources and of short history for charts."""

from __future__ import annotations

from django.db import models


class Rejection(models.Model):
    """Input that was refused, counted by reason: never dropped in silence."""

    cluster_id = models.BigIntegerField(db_index=True)
    source = models.CharField(max_length=32)  # scrape, push, inventory
    reason = models.CharField(max_length=48)  # ambiguous_node, unknown_node, wrong_node, cut_line, absurd_value, ...
    subject = models.CharField(max_length=253, default="", blank=True)  # the target or the claimed name
    text = models.CharField(max_length=500, default="", blank=True)
    count = models.BigIntegerField(default=0)
    first_at = models.DateTimeField()
    last_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster_id", "source", "reason", "subject"], name="rejection_once")
        ]


class NodeHistory(models.Model):
    """One packed row per node and minute: {"gpu_power": [[...8 values or null]], ...} as orjson bytes.

    Partitioned by the hour; see `partitions`.
    """

    cluster_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    at = models.DateTimeField()
    data = models.BinaryField()

    class Meta:
        indexes = [models.Index(fields=["node_id", "at"]), models.Index(fields=["at"])]


class NodeRollup(models.Model):
    """One packed row per node and hour: ten-minute means, lows and highs (see `rolling`). Partitioned by the day."""

    cluster_id = models.BigIntegerField()
    node_id = models.BigIntegerField()
    at = models.DateTimeField()
    data = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["node_id", "at"], name="node_rollup_once")]
