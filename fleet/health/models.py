"""Persistence of signals, verdicts and incidents."""

from __future__ import annotations

from django.db import models
from django.db.models import Q


class Verdict(models.TextChoices):
    HEALTHY = "healthy", "Healthy"
    DEGRADED = "degraded", "Degraded"
    UNHEALTHY = "unhealthy", "Unhealthy"
    UNKNOWN = "unknown", "Unknown"
    LOST = "lost", "Lost"


class NodeVerdict(models.Model):
    """Today's verdict on a node. `devices` maps a device key to [verdict, reason, since]."""

    node = models.OneToOneField("inventory.Node", on_delete=models.CASCADE, related_name="verdict_row")
    cluster_id = models.BigIntegerField(db_index=True)
    verdict = models.CharField(max_length=12, choices=Verdict.choices, default=Verdict.UNKNOWN)
    reason = models.CharField(max_length=300, default="", blank=True)
    rule = models.CharField(max_length=64, default="", blank=True)
    since = models.DateTimeField()
    devices = models.JSONField(default=dict, blank=True)
    telemetry_at = models.DateTimeField(null=True)  # newest sample of any exporter


class RuleState(models.Model):
    """What the rules must remember of a node over a restart: latches, counter baselines, damping.

    Saved in the transaction of the signals, one row per node so that one fatal line rewrites one small row.
    """

    node = models.OneToOneField("inventory.Node", on_delete=models.CASCADE, related_name="rule_state")
    cluster_id = models.BigIntegerField(db_index=True)
    state = models.JSONField(default=dict)


class RulesRead(models.Model):
    """The rules file that a cluster was judged by last, as text: an observer that starts compares its own with it."""

    cluster_id = models.BigIntegerField(unique=True)
    text = models.TextField(default="", blank=True)
    read_at = models.DateTimeField()


class DetectorChange(models.Model):
    """Something that finds faults was changed: a check's rule (`check_id`), or what runs on a node (`node`)."""

    cluster_id = models.BigIntegerField()
    check_id = models.CharField(max_length=64, default="", blank=True)
    node = models.ForeignKey("inventory.Node", null=True, on_delete=models.CASCADE, related_name="detector_changes")
    what = models.CharField(max_length=200)  # goes on a sentence after "since"
    at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["cluster_id", "at"])]


class Signal(models.Model):
    """One normalised observation, open until evidence clears it."""

    cluster_id = models.BigIntegerField(db_index=True)
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="signals")
    rule = models.CharField(max_length=64)
    cause = models.CharField(max_length=64)
    device = models.CharField(max_length=200, default="", blank=True)
    code = models.CharField(max_length=32, default="", blank=True)
    source = models.CharField(max_length=24)
    severity = models.CharField(max_length=12)
    action_class = models.CharField(max_length=24)
    title = models.CharField(max_length=300)
    mode = models.CharField(max_length=12, default="automate", db_default="automate")  # of its rule, in the node's pool
    evidence = models.JSONField(default=dict)
    first_bad_at = models.DateTimeField()
    opened_at = models.DateTimeField(db_index=True)
    seen_at = models.DateTimeField()
    cleared_at = models.DateTimeField(null=True)
    incident = models.ForeignKey("Incident", null=True, on_delete=models.SET_NULL, related_name="signals")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "rule", "device", "code"], condition=Q(cleared_at=None), name="signal_open_once"
            )
        ]


class Incident(models.Model):
    """One fault with one cause on one scope. Its id fences every action.

    `state`: open, or resolved. `detected_at - first_bad_at` is the time to detect.
    """

    OPEN = "open"
    RESOLVED = "resolved"

    cluster = models.ForeignKey("inventory.Cluster", on_delete=models.CASCADE, related_name="incidents")
    node = models.ForeignKey("inventory.Node", null=True, on_delete=models.CASCADE, related_name="incidents")
    scope = models.CharField(max_length=24, default="node")
    place = models.CharField(max_length=253, default="", blank=True)  # of a shared one: which leaf, server, check
    part_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="parts")
    plan_after = models.DateTimeField(null=True)  # it may turn out to be shared: nothing is planned before
    open_until = models.DateTimeField(null=True)  # it flapped: it stays open though its signals cleared
    device = models.CharField(max_length=200, default="", blank=True)
    cause = models.CharField(max_length=64)
    rule = models.CharField(max_length=64)
    severity = models.CharField(max_length=12)
    action_class = models.CharField(max_length=24)
    title = models.CharField(max_length=300)
    state = models.CharField(max_length=12, default=OPEN, db_index=True)
    mode = models.CharField(max_length=12, default="automate", db_default="automate")  # see health.modes
    boot_id = models.CharField(max_length=64, default="", blank=True)  # the boot in which it arose
    first_bad_at = models.DateTimeField()
    detected_at = models.DateTimeField(db_index=True)
    resolved_at = models.DateTimeField(null=True)
    resolution = models.CharField(max_length=200, default="", blank=True)
    evidence = models.JSONField(default=dict)
    acked_at = models.DateTimeField(null=True)
    acked_by = models.CharField(max_length=150, default="", blank=True)
    muted_until = models.DateTimeField(null=True)  # nothing is planned for it before
    muted_by = models.CharField(max_length=150, default="", blank=True)
    muted_reason = models.CharField(max_length=300, default="", blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["node", "device", "cause"], condition=Q(state="open"), name="incident_open_once"
            ),
            models.UniqueConstraint(
                fields=["cluster", "scope", "place", "cause"],
                condition=Q(state="open", node=None),
                name="incident_shared_once",
            ),
        ]

    @property
    def label(self) -> str:
        return f"INC-{self.pk}"

    @property
    def is_shared(self) -> bool:
        """Its cause lies outside of its nodes: nothing is done to them for it."""
        return self.node_id is None


class IncidentMember(models.Model):
    """A node that a shared incident was seen on."""

    incident = models.ForeignKey(Incident, on_delete=models.CASCADE, related_name="members")
    node = models.ForeignKey("inventory.Node", on_delete=models.CASCADE, related_name="memberships")
    joined_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["incident", "node"], name="member_once")]
