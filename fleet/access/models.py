"""Users, grants of roles in scopes, and tokens of machines."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    APPROVER = "approver", "Approver"
    POLICY = "policy", "Policy"
    ADMIN = "admin", "Admin"


class User(AbstractUser):
    """A person. `theme` and `utc` are display choices; rights come from grants alone (is_superuser counts as admin)."""

    theme = models.CharField(max_length=8, default="auto")


class Grant(models.Model):
    """`user` has `role` in `cluster` (by name; empty: everywhere)."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="grants")
    role = models.CharField(max_length=16, choices=Role.choices)
    cluster = models.CharField(max_length=63, default="", blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "role", "cluster"], name="grant_once")]


class Token(models.Model):
    """A machine's credential; only its SHA-256 is stored. `node` binds a pushing token to one node (empty: any).

    A token of scope `act` stands for its `user`: it may what that person may, in `cluster` alone if it names one.
    """

    name = models.CharField(max_length=100)
    digest = models.CharField(max_length=64, unique=True)
    scope = models.CharField(max_length=16)  # push, read, act
    user = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="tokens")
    cluster = models.CharField(max_length=63, default="", blank=True)
    node = models.CharField(max_length=253, default="", blank=True)
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
