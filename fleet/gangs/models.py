"""Persistence of gangs, queues, conditions and of how both went over time. What follows from them is elsewhere."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class GangRow(models.Model):
    """One gang as it is now (`fleet.gangs.form.Gang`), with why it waits. Gone ones are kept for a while.

    `reason`: {raw, source, since, fits, needs, free, slots, lacking, level, ahead, ahead_called}. `blockers`: [{node,
    members, code, text, since, back_at, workflow, ticket}]. `members`: [[key, node, state, role, gpus, waits, stuck,
    sick_device]]. `objects`: [{system, kind, namespace, name, phase, said: [[code, text, at, source]]}], of a Kueue
    Workload also `by_topology` and `unhealthy` (nodes) where there is anything to tell. `idle_seconds` are GPU seconds
    that it held for nothing since it was first seen, up to `counted_at`.
    """

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="gangs")
    key = models.CharField(max_length=600)
    system = models.CharField(max_length=16)
    kind = models.CharField(max_length=64)
    namespace = models.CharField(max_length=100, default="", blank=True)
    name = models.CharField(max_length=253)
    title = models.CharField(max_length=330)
    owner = models.CharField(max_length=200, default="", blank=True)
    queue_key = models.CharField(max_length=600, default="", blank=True)
    queue = models.CharField(max_length=253, default="", blank=True)
    priority = models.BigIntegerField(default=0)
    position = models.IntegerField(null=True)
    state = models.CharField(max_length=12)
    wanted = models.IntegerField(default=0)
    minimum = models.IntegerField(default=0)
    placed = models.IntegerField(default=0)
    running = models.IntegerField(default=0)
    ready = models.IntegerField(default=0)
    not_created = models.IntegerField(default=0)
    gated = models.IntegerField(default=0)
    unscheduled = models.IntegerField(default=0)
    gpus_per_member = models.IntegerField(default=0)
    gpus_wanted = models.BigIntegerField(default=0)
    gpus_held = models.BigIntegerField(default=0)
    gpus_held_idle = models.BigIntegerField(default=0)
    guarantee = models.CharField(max_length=8, default="unknown")
    created_at = models.DateTimeField(null=True)
    waits_since = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    reason_code = models.CharField(max_length=20, default="", blank=True)
    reason = models.JSONField(default=dict, blank=True)
    blockers = models.JSONField(default=list, blank=True)
    nodes = models.JSONField(default=list, blank=True)
    members = models.JSONField(default=list, blank=True)
    objects_seen = models.JSONField(default=list, blank=True)
    idle_since = models.DateTimeField(null=True)
    idle_seconds = models.FloatField(default=0.0)
    counted_at = models.DateTimeField(null=True)
    head_down_since = models.DateTimeField(null=True)  # of its Ray cluster, as it was first seen
    first_seen_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "key"], name="gang_key")]
        indexes = [
            models.Index(fields=["cluster", "queue_key"], condition=Q(gone_at=None), name="gang_by_queue"),
            models.Index(fields=["gone_at"], name="gang_gone"),
        ]

    def __str__(self) -> str:
        return self.title


class QueueRow(models.Model):
    """One queue as it is now. `quotas`: [{flavor, resource, guaranteed, used, reserved, borrowed, ceiling, wanted}]."""

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="queues")
    key = models.CharField(max_length=600)
    system = models.CharField(max_length=16)
    kind = models.CharField(max_length=64)
    namespace = models.CharField(max_length=100, default="", blank=True)
    name = models.CharField(max_length=253)
    parent = models.CharField(max_length=253, default="", blank=True)
    leads_to = models.CharField(max_length=253, default="", blank=True)
    stopped = models.BooleanField(default=False)
    head_blocks = models.BooleanField(default=False)
    quotas = models.JSONField(default=list, blank=True)
    share = models.FloatField(null=True)
    share_text = models.CharField(max_length=100, default="", blank=True)
    weight = models.FloatField(null=True)
    waiting = models.IntegerField(null=True)
    admitted = models.IntegerField(null=True)
    running = models.IntegerField(null=True)
    said = models.JSONField(default=list, blank=True)  # [[code, text, at, source]]
    changed_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "key"], name="queue_key")]

    def __str__(self) -> str:
        return self.name


class GangCondition(models.Model):
    """Something wrong in the making of a gang, from when it was first true. `facts` are the numbers of its sentence,
    and its `severity`.

    `gang_key` is "" for a condition of the cluster; a deadlock is told once for each gang in it.
    """

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="gang_conditions")
    gang_key = models.CharField(max_length=600, default="", blank=True)
    code = models.CharField(max_length=40)
    about = models.CharField(max_length=253, default="", blank=True)  # a worker group, a placement group
    facts = models.JSONField(default=dict, blank=True)
    since = models.DateTimeField()
    seen_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["cluster", "gang_key", "code", "about"], condition=Q(ended_at=None), name="condition_open_once"
            )
        ]
        indexes = [models.Index(fields=["cluster", "ended_at"], name="condition_ended")]


class GangMoment(models.Model):
    """One line of a gang's timeline: it came, it waits for another reason, it began, a node of it was lost."""

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="gang_moments")
    gang_key = models.CharField(max_length=600)
    at = models.DateTimeField()
    kind = models.CharField(max_length=16)  # state, reason, condition, gone
    what = models.CharField(max_length=64)  # the new state, reason code or condition code
    facts = models.JSONField(default=dict, blank=True)

    class Meta:
        indexes = [
            models.Index(fields=["cluster", "gang_key", "at"], name="gang_moment_at"),
            models.Index(fields=["at"], name="gang_moment_age"),
        ]


class QueueMinute(models.Model):
    """A minute of a cluster: how much of it works, and how long gangs wait. The two pull apart when it fragments."""

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="queue_minutes")
    at = models.DateTimeField()
    gpus_total = models.IntegerField()
    gpus_out = models.IntegerField()  # on nodes that take no work
    gpus_used = models.IntegerField()
    gpus_idle = models.IntegerField()  # of the used ones: held for nothing
    gangs_waiting = models.IntegerField()
    gpus_wanted = models.IntegerField()  # by those that wait
    wait_median = models.FloatField(null=True)  # seconds, of those that wait now
    wait_longest = models.FloatField(null=True)
    full_nodes_free = models.IntegerField()  # whole nodes that nothing uses
    full_nodes_packed = models.IntegerField()  # if all that runs were packed

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "at"], name="queue_minute")]


class Ending(models.Model):
    """What was known when a job failed, kept when the job's own objects and logs are gone."""

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="gang_endings")
    gang_key = models.CharField(max_length=600)
    title = models.CharField(max_length=330)
    at = models.DateTimeField()
    status = models.CharField(max_length=40)
    message = models.TextField(default="", blank=True)
    log_tail = models.TextField(default="", blank=True)
    events = models.JSONField(default=list, blank=True)
    placement_groups = models.JSONField(default=list, blank=True)
    nodes = models.JSONField(default=list, blank=True)  # [{node, verdict, reason, incident}]
    missing = models.JSONField(default=list, blank=True)  # what could not be had, in words

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster", "gang_key", "at"], name="ending_once")]
        indexes = [models.Index(fields=["cluster", "at"], name="ending_at")]
