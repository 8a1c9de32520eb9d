"""Persistence of the audit log. A trigger refuses UPDATE and DELETE (see the first migration)."""

from __future__ import annotations

from django.db import models


class AuditHead(models.Model):
    """The tip of one chain. Its row lock is the last lock that any transaction takes."""

    chain = models.CharField(max_length=64, unique=True)  # "cluster:<id>" or "site"
    seq = models.BigIntegerField(default=0)
    hash = models.CharField(max_length=64, default="")


class AuditRow(models.Model):
    chain = models.CharField(max_length=64)
    seq = models.BigIntegerField()
    at = models.DateTimeField(db_index=True)
    actor = models.CharField(max_length=150)  # a user name, or "muster:<process>"
    action = models.CharField(max_length=64, db_index=True)
    object = models.CharField(max_length=128, db_index=True)  # "workflow:12", "incident:3", "ticket:1"
    node = models.CharField(max_length=253, default="", blank=True, db_index=True)
    detail = models.JSONField(default=dict)
    prev = models.CharField(max_length=64)
    hash = models.CharField(max_length=64)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["chain", "seq"], name="audit_chain_seq")]
