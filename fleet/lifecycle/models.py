"""Persistence of node states, workflows, steps and intents. The database refuses an edge that the machine lacks."""

from __future__ import annotations

import uuid

from django.db import models
from django.db.models import Q

from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState


class NodeLifecycle(models.Model):
    """Where a node stands in its life. Written only by `lifecycle.transitions`."""

    node = models.OneToOneField("inventory.Node", on_delete=models.CASCADE, related_name="lifecycle")
    cluster_id = models.BigIntegerField(db_index=True)
    state = models.CharField(max_length=20, default=NodeState.IN_SERVICE, db_index=True)
    since = models.DateTimeField()
    reason = models.CharField(max_length=300, default="", blank=True)
    by = models.CharField(max_length=150, default="", blank=True)
    remediated_at = models.DateTimeField(null=True)  # evidence older than this is history


class Workflow(models.Model):
    """One run of a playbook for one incident on one node.

    `version` is the fence: every write says WHERE version =, and a message that carries an older one is dropped.
    `wake_at` is the lease: nobody else advances it before; None means nothing will wake it (ended, or only a plan).
    `blocked_*` is filled while a guard or another party keeps it waiting.
    """

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="workflows")
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="workflows")
    incident = models.ForeignKey("health.Incident", null=True, on_delete=models.SET_NULL, related_name="workflows")
    playbook = models.CharField(max_length=64)
    plan = models.JSONField(default=list)  # [{"verb": "hold", ...}, ...]
    state = models.CharField(max_length=12, default=WorkflowState.PLANNED, db_index=True)
    step = models.IntegerField(default=0)  # index in plan
    attempt = models.IntegerField(default=1)  # of the remediation as a whole
    attempts = models.IntegerField(default=2)  # as many as the playbook allows before people are asked
    version = models.BigIntegerField(default=0)
    wake_at = models.DateTimeField(null=True)
    blocked_code = models.CharField(max_length=32, default="", blank=True)
    blocked_text = models.CharField(max_length=500, default="", blank=True)
    blocked_since = models.DateTimeField(null=True)
    blocked_until = models.DateTimeField(null=True)
    hold_value = models.CharField(max_length=200, default="", blank=True)
    node_uid = models.CharField(max_length=64, default="", blank=True)  # identity pinned at the plan
    created_by = models.CharField(max_length=150, default="muster", blank=True)
    reason = models.CharField(max_length=300, default="", blank=True)  # of the person who asked for it
    needs_approval = models.BooleanField(default=False)
    approved_hash = models.CharField(max_length=64, default="", blank=True)  # of the plan that people agreed to
    created_at = models.DateTimeField(db_index=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node"],
                condition=Q(state__in=[str(state) for state in OPEN_WORKFLOW_STATES]),
                name="workflow_open_once",
            ),
            models.UniqueConstraint(fields=["node"], condition=Q(state="planned"), name="workflow_planned_once"),
        ]
        indexes = [models.Index(fields=["wake_at"], condition=Q(wake_at__isnull=False), name="workflow_wake")]

    @property
    def label(self) -> str:
        return f"WF-{self.pk}"

    @property
    def verb(self) -> str:
        return self.verb_at(self.step)

    def verb_at(self, index: int) -> str:
        """The verb of that step; "" behind the last."""
        return str(self.plan[index]["verb"]) if index < len(self.plan) else ""


class Step(models.Model):
    """One try of one verb of a workflow, with what it saw and did."""

    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="steps")
    index = models.IntegerField()
    attempt = models.IntegerField()
    verb = models.CharField(max_length=16)
    state = models.CharField(max_length=10, default="running")  # running, done, failed, skipped, cancelled
    started_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField(null=True)
    text = models.CharField(max_length=500, default="", blank=True)
    memo = models.JSONField(default=dict)  # what the step must remember between two messages

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "index", "attempt"], name="step_once")]


class Remedy(models.Model):
    """What one try of a disruptive verb came to: the measure of repair effectiveness."""

    HELD, FAILED = "held", "failed"
    BOUNCED, AGAIN = "bounced", "again"  # the node was out again within a day, by the same cause or by another one

    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="remedies")
    attempt = models.IntegerField()
    node_id = models.BigIntegerField()
    cluster_id = models.BigIntegerField(db_index=True)
    verb = models.CharField(max_length=16)
    cause = models.CharField(max_length=100)
    sku = models.CharField(max_length=100, default="", blank=True)
    driver = models.CharField(max_length=64, default="", blank=True)
    firmware = models.CharField(max_length=128, default="", db_default="", blank=True)
    result = models.CharField(max_length=8)
    ended_at = models.DateTimeField()
    back_incident = models.BigIntegerField(null=True)  # which took the node out again
    back_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["workflow", "attempt"], name="remedy_once")]
        indexes = [models.Index(fields=["cause", "ended_at"]), models.Index(fields=["node_id", "ended_at"])]


class Intent(models.Model):
    """Written and committed before a side effect; `op_id` names it for ever. Resolved with what was observed.

    At most one unresolved intent per BMC: nobody calls that BMC before `call_deadline` or the resolution.
    """

    op_id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    workflow = models.ForeignKey(Workflow, on_delete=models.CASCADE, related_name="intents")
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="intents")
    verb = models.CharField(max_length=24)
    target = models.CharField(max_length=300)
    bmc_id = models.BigIntegerField(null=True)
    call_deadline = models.DateTimeField(null=True)
    before = models.JSONField(default=dict)  # boot id, last reset, power state: what was true before the act
    created_at = models.DateTimeField()
    resolved_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=16, default="", blank=True)  # done, refused, unknown, expired
    text = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["bmc_id"], condition=Q(resolved_at=None, bmc_id__isnull=False), name="intent_bmc_once"
            )
        ]


class Batch(models.Model):
    """One action of a person on an exact list of nodes: as fast as guards allow, or rolling through a window.

    `plan_hash` is of the list, the action and the pace: what was approved is what runs.
    """

    DRAFT, WAITING, RUNNING, PAUSED, DONE, CANCELLED = "draft", "waiting", "running", "paused", "done", "cancelled"

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="batches")
    action = models.CharField(max_length=16)
    reason = models.CharField(max_length=300)
    playbook = models.JSONField(null=True)  # `asked.kept`: the playbook as it was when the list was made; or an action
    selection = models.JSONField(default=dict)  # what was asked for, as people read it
    plan_hash = models.CharField(max_length=64, default="", blank=True)
    state = models.CharField(max_length=10, default=DRAFT, db_index=True)
    text = models.CharField(max_length=500, default="", blank=True)  # why it waits, is paused or ended
    until = models.DateTimeField(null=True)  # when that is looked at anew
    at_once = models.IntegerField(null=True)  # nodes under way at the same time; None: as many as guards allow
    stop_after = models.IntegerField(null=True)  # failures that pause it; None: none does
    forgiven = models.IntegerField(default=0)  # failures that a person saw and went on after
    spare_jobs = models.BooleanField(default=False)  # a node waits until its gang has ended
    window = models.JSONField(null=True)  # {"zone", "days", "start", "minutes"}; None: at any time
    begins = models.DateTimeField(null=True)
    ends = models.DateTimeField(null=True)
    needs_approval = models.BooleanField(default=True)
    approved_hash = models.CharField(max_length=64, default="", blank=True)
    requested_by = models.CharField(max_length=150)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)

    @property
    def label(self) -> str:
        return f"{'MW' if self.window else 'BA'}-{self.pk}"


class BatchNode(models.Model):
    """One node of a batch. `uid` is pinned: a node that was replaced since is not the one that was approved."""

    PENDING, BEGUN, DONE, FAILED, REFUSED = "pending", "begun", "done", "failed", "refused"

    batch = models.ForeignKey(Batch, on_delete=models.CASCADE, related_name="members")
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="batch_members")
    place = models.IntegerField()
    uid = models.CharField(max_length=64, default="", blank=True)
    workflow = models.ForeignKey(Workflow, null=True, on_delete=models.SET_NULL, related_name="batch_members")
    state = models.CharField(max_length=10, default=PENDING)
    code = models.CharField(max_length=32, default="", blank=True)  # of what keeps it waiting
    text = models.CharField(max_length=500, default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "node"], name="batch_node_once")]


class GangInterruption(models.Model):
    """The latest time that drains of ours broke a gang. One row per gang; nodes drained together share it."""

    cluster_id = models.BigIntegerField()
    gang = models.CharField(max_length=300)
    workflow_id = models.BigIntegerField()  # the first of those that share it
    begun_at = models.DateTimeField()
    last_at = models.DateTimeField()  # of the latest eviction that was accepted

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster_id", "gang"], name="interruption_once")]


class EvictionBucket(models.Model):
    """What is left of a cluster's rate of evictions, shared by all workers: `tokens` as of `at`."""

    cluster_id = models.BigIntegerField(unique=True)
    tokens = models.FloatField()
    at = models.DateTimeField()


from fleet.lifecycle.suspending.models import Suspension  # noqa: E402, F401  of this app too
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun  # noqa: E402, F401  of this app too
