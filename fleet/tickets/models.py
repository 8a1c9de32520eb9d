"""Persistence of tickets."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Ticket(models.Model):
    """Work for people on one node: what to replace or look at, with the evidence to paste."""

    OPEN = "open"
    CLOSED = "closed"

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE)
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="tickets")
    incident = models.ForeignKey("health.Incident", null=True, on_delete=models.SET_NULL, related_name="tickets")
    workflow_id = models.BigIntegerField(null=True)
    state = models.CharField(max_length=8, default=OPEN, db_index=True)
    part = models.CharField(max_length=100, default="", blank=True)
    serial = models.CharField(max_length=100, default="", blank=True)
    title = models.CharField(max_length=300)
    reason = models.CharField(max_length=300, default="", blank=True)
    evidence = models.JSONField(default=dict)
    opened_at = models.DateTimeField(db_index=True)
    closed_at = models.DateTimeField(null=True)
    closed_by = models.CharField(max_length=150, default="", blank=True)
    resolution = models.TextField(default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "incident"], condition=Q(state="open"), name="ticket_open_once", nulls_distinct=False
            )
        ]

    @property
    def label(self) -> str:
        return f"TKT-{self.pk}"
