"""Persistence of what was tested and measured. Baselines are read from these rows, never kept beside them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class ValidationRun(models.Model):
    """One test Job on one node. `result` is "" while it runs; only `passed` is a pass."""

    cluster_id = models.BigIntegerField(db_index=True)
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="validation_runs")
    workflow = models.ForeignKey(
        "lifecycle.Workflow", null=True, on_delete=models.SET_NULL, related_name="validation_runs"
    )
    step = models.ForeignKey("lifecycle.Step", null=True, on_delete=models.SET_NULL, related_name="validation_runs")
    tries = models.IntegerField(default=1)  # of the step
    purpose = models.CharField(max_length=10)  # validate, confirm, burn_in
    suite = models.CharField(max_length=20)
    test = models.CharField(max_length=20)
    kind = models.CharField(max_length=10)
    level = models.IntegerField(default=0)
    job = models.CharField(max_length=130)  # namespace/name
    sku = models.CharField(max_length=100, default="", blank=True)
    pool = models.CharField(max_length=100, default="", blank=True)
    started_at = models.DateTimeField()
    deadline = models.DateTimeField()
    ran_at = models.DateTimeField(null=True)  # when it was first seen to run
    ended_at = models.DateTimeField(null=True)
    result = models.CharField(max_length=10, default="", blank=True)  # passed, failed, no_result, skipped, stopped
    text = models.CharField(max_length=500, default="", blank=True)
    tail = models.TextField(default="", blank=True)  # the log's last lines, for people

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster_id", "job"], name="validation_job_once"),
            models.UniqueConstraint(
                fields=["node"], condition=Q(purpose="burn_in", ended_at=None), name="burn_in_one_at_once"
            ),
        ]
        indexes = [
            models.Index(fields=["node", "-started_at"], name="validation_of_node"),
            models.Index(fields=["cluster_id"], condition=Q(ended_at=None), name="validation_open"),
        ]


class ValidationResult(models.Model):
    """One finding of a run. `key` is what is comparable between nodes; `floor` is what the value was held against."""

    run = models.ForeignKey(ValidationRun, on_delete=models.CASCADE, related_name="results")
    name = models.CharField(max_length=120)
    device = models.CharField(max_length=200, default="", blank=True)
    status = models.CharField(max_length=4)
    value = models.FloatField(null=True)
    unit = models.CharField(max_length=8, default="", blank=True)
    key = models.CharField(max_length=330, default="", blank=True)
    baseline = models.FloatField(null=True)
    spread = models.FloatField(null=True)
    nodes = models.IntegerField(default=0)  # how many made the baseline
    floor = models.FloatField(null=True)
    text = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        indexes = [models.Index(fields=["key", "-id"], condition=Q(value__isnull=False), name="validation_measured")]
