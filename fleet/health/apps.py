"""Django app of fleet.health."""

from django.apps import AppConfig


class HealthConfig(AppConfig):
    name = "fleet.health"
    label = "health"
