"""Persistence of caps, the scopes they count in, and the claims against them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class CapKind(models.TextChoices):
    HOLD = "hold", "Held"
    TAKE_OUT = "take_out", "Out of service"
    IN_FLIGHT = "in_flight", "In flight"


class Cap(models.Model):
    """At most min(absolute, percent of the scope's nodes), never below 1. Both None: no limit.

    `cluster_id` None is the default of every cluster; `scope` is the kind of scope it applies in, each one by itself.
    """

    cluster_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=12, choices=CapKind.choices)
    scope = models.CharField(max_length=16)  # fleet, cluster, pool, rack, leaf, nvlink
    absolute = models.IntegerField(null=True)
    percent = models.FloatField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster_id", "kind", "scope"], name="cap_once", nulls_distinct=False)
        ]


class ScopeLock(models.Model):
    """A row to lock: grants lock the rows of every scope that they touch, in id order."""

    cluster_id = models.BigIntegerField()
    scope = models.CharField(max_length=16)
    key = models.CharField(max_length=100)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster_id", "scope", "key"], name="scope_once")]


class Claim(models.Model):
    """A workflow's share of a cap, from grant to release. One row per kind; the scopes follow from the node."""

    cluster_id = models.BigIntegerField(db_index=True)
    kind = models.CharField(max_length=12, choices=CapKind.choices)
    node_id = models.BigIntegerField()
    workflow_id = models.BigIntegerField(db_index=True)
    cost = models.IntegerField(default=1)
    claimed_at = models.DateTimeField()
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "workflow_id"], condition=Q(released_at=None), name="claim_open_once"
            )
        ]
        indexes = [models.Index(fields=["cluster_id", "kind"], condition=Q(released_at=None), name="claim_open")]


class Switch(models.Model):
    """The kill switch: one row; `stopped` true stops all new disruption everywhere."""

    stopped = models.BooleanField(default=False)
    since = models.DateTimeField(null=True)
    by = models.CharField(max_length=150, default="", blank=True)
    reason = models.CharField(max_length=300, default="", blank=True)
