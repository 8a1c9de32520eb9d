"""Persistence of what we suspended: a row from before the write until the job runs again, or is not ours to start."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q


class Suspension(models.Model):
    """One job that drains of ours suspend. At most one that is open for one object, by its UID.

    `mark` is on the object while the suspension is ours. `generation`: of the object as it was read before it was
    asked. `nodes`: where the job ran then, and those whose drains came upon it since; it is started again when none of
    them is to be drained any more, at `until` at the latest.
    """

    ASKED, SUSPENDED, RESUMING = "asked", "suspended", "resuming"
    RESUMED, LEFT = "resumed", "left"

    op_id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    cluster_id = models.BigIntegerField()
    workflow = models.ForeignKey("lifecycle.Workflow", null=True, on_delete=models.SET_NULL, related_name="suspensions")
    step = models.ForeignKey("lifecycle.Step", null=True, on_delete=models.SET_NULL, related_name="suspensions")
    kind = models.CharField(max_length=16)
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    generation = models.BigIntegerField()
    mark = models.CharField(max_length=200)
    nodes = models.JSONField(default=list)
    state = models.CharField(max_length=10, default=ASKED)
    text = models.CharField(max_length=300, default="", blank=True)  # why it ended so, or why it cannot be ended now
    begun_at = models.DateTimeField()
    asked_at = models.DateTimeField()  # of the latest call: its effect may come for a while
    suspended_at = models.DateTimeField(null=True)
    until = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster_id", "uid"], condition=Q(ended_at=None), name="suspension_open_once"
            )
        ]

    @property
    def title(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"
