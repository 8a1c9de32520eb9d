"""The outbox: one row per change that others should hear of, written in the change's own transaction."""

from __future__ import annotations

from django.db import models


class Outbox(models.Model):
    """`topic` says what changed (`workflow`, `node`, `incident`, `ticket`, `mode`), `ref` which. No state inside."""

    cluster_id = models.BigIntegerField(null=True, db_index=True)
    topic = models.CharField(max_length=32)
    ref = models.CharField(max_length=128)
    node = models.CharField(max_length=253, default="", blank=True)
    created_at = models.DateTimeField(db_index=True)
