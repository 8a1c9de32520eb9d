"""Persistence of caps and other limits, the scopes they count in, the claims against them, the breaker and versions."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class CapKind(models.TextChoices):
    HOLD = "hold", "Held"
    TAKE_OUT = "take_out", "Out of service"
    IN_FLIGHT = "in_flight", "In flight"


class LimitKind(models.TextChoices):
    """What a `Cap` row limits: a level of one of the claims, a rate of disruptive verbs, or a floor of capacity."""

    HOLD = "hold", "Held"
    TAKE_OUT = "take_out", "Out of service"
    IN_FLIGHT = "in_flight", "In flight"
    RATE = "rate", "Disruptive verbs begun"
    FLOOR = "floor", "Nodes in service at least"


class Cap(models.Model):
    """At most min(absolute, percent of the scope's nodes), never below 1. Both None: no limit.

    A `rate` counts disruptive verbs begun within `window` seconds; a `floor` is the larger of both, rounded up.

    `cluster_id` None is the default of every cluster; `scope` is the kind of scope it applies in, each one by itself.
    """

    cluster_id = models.BigIntegerField(null=True)
    kind = models.CharField(max_length=12, choices=LimitKind.choices)
    scope = models.CharField(max_length=16)  # fleet, cluster, tenant, pool, rack, leaf, nvlink
    absolute = models.IntegerField(null=True)
    percent = models.FloatField(null=True)
    window = models.FloatField(null=True)  # seconds, of a rate

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
    cost = models.IntegerField(default=1)  # 0: it was granted whatever room there was, see `rules.free`
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


class BreakerRule(models.Model):
    """When the breaker trips. `cluster_id` None is the default of every cluster."""

    cluster_id = models.BigIntegerField(null=True)
    enabled = models.BooleanField(default=True)
    percent = models.FloatField(default=25.0)  # of the managed nodes newly held
    least = models.IntegerField(default=20)  # but never for fewer nodes than this
    window = models.FloatField(default=600.0)  # seconds
    failed = models.IntegerField(default=6)  # remedies that failed
    failed_percent = models.FloatField(default=60.0)  # of all remedies that ended
    failed_window = models.FloatField(default=3600.0)
    cooldown = models.FloatField(default=300.0)  # seconds of quiet after a reset

    class Meta:
        constraints = [models.UniqueConstraint(fields=["cluster_id"], name="breaker_rule_once", nulls_distinct=False)]


class Breaker(models.Model):
    """One cluster's breaker. Kept in the database: a restart forgets nothing."""

    CLOSED, OPEN, COOLING = "closed", "open", "cooling"

    cluster_id = models.BigIntegerField(unique=True)
    state = models.CharField(max_length=8, default=CLOSED)
    since = models.DateTimeField()
    until = models.DateTimeField(null=True)  # the end of the cool-down
    by = models.CharField(max_length=150, default="", blank=True)
    text = models.CharField(max_length=500, default="", blank=True)


class Window(models.Model):
    """A recurring time, in a zone of its own: a freeze forbids disruption in it, an opening allows it in it alone.

    `cluster_id` None: every cluster; `pool` "": every pool. `days` are ISO weekdays as digits ("12345"); `start` is a
    wall time; `begins` and `ends` bound the whole (both None: for ever).
    """

    FREEZE, OPENING = "freeze", "opening"

    cluster_id = models.BigIntegerField(null=True)
    pool = models.CharField(max_length=100, default="", blank=True)
    kind = models.CharField(max_length=8)
    name = models.CharField(max_length=100)
    zone = models.CharField(max_length=64)
    days = models.CharField(max_length=7, default="1234567")
    start = models.TimeField()
    minutes = models.IntegerField()
    begins = models.DateTimeField(null=True)
    ends = models.DateTimeField(null=True)
    urgent_passes = models.BooleanField(default=False)  # may what is unhealthy be mended all the same?
    created_by = models.CharField(max_length=150, default="", blank=True)
    created_at = models.DateTimeField()


class ApprovalRule(models.Model):
    """How many people beside the requester must agree, and how long a request lives."""

    kind = models.CharField(max_length=16, unique=True)
    needed = models.IntegerField()
    minutes = models.IntegerField()


class Approval(models.Model):
    """A request for approval of one exact plan. `subject` is what it lets go on, e.g. `workflow:17`."""

    PENDING, APPROVED, REJECTED, EXPIRED, WITHDRAWN = "pending", "approved", "rejected", "expired", "withdrawn"

    cluster_id = models.BigIntegerField(null=True, db_index=True)
    subject = models.CharField(max_length=64, db_index=True)
    kind = models.CharField(max_length=16)
    plan_hash = models.CharField(max_length=64)
    summary = models.JSONField(default=dict)  # what people read: node, verbs, gangs that it interrupts
    requested_by = models.CharField(max_length=150)
    reason = models.CharField(max_length=300, default="", blank=True)
    needed = models.IntegerField()
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    state = models.CharField(max_length=10, default=PENDING, db_index=True)
    decided_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["subject"], condition=Q(state="pending"), name="approval_pending_once")
        ]


class ApprovalVote(models.Model):
    approval = models.ForeignKey(Approval, on_delete=models.CASCADE, related_name="votes")
    by = models.CharField(max_length=150)
    yes = models.BooleanField()
    reason = models.CharField(max_length=300, default="", blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["approval", "by"], name="vote_once")]


class RoleCap(models.Model):
    """How many nodes one action of a person with that role may touch; a role without a row has its usual number."""

    role = models.CharField(max_length=16, unique=True)
    nodes = models.IntegerField()


class PolicyVersion(models.Model):
    """One change of the policy, as it was asked for. People call it by its id.

    `text` is the whole policy as it then is, `base` the one that it was compared with; `changes` are the differences
    (`loosening.Change` as mappings). In force from `applied_at`; until then it waits for its `Approval`.
    """

    text = models.TextField()
    base = models.TextField()
    changes = models.JSONField(default=list)
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=300)
    created_at = models.DateTimeField()
    applied_at = models.DateTimeField(null=True, db_index=True)

    @property
    def label(self) -> str:
        return f"POL-{self.pk}"

    @property
    def subject(self) -> str:
        return f"policy:{self.pk}"
