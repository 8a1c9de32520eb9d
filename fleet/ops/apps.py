"""Registers the operating commands with Django. Owns no table."""

from __future__ import annotations

from django.apps import AppConfig


class OpsConfig(AppConfig):
    name = "fleet.ops"
    label = "ops"
    verbose_name = "Operations"
