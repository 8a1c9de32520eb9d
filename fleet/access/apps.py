"""Django app of fleet.access."""

from django.apps import AppConfig


class AccessConfig(AppConfig):
    name = "fleet.access"
    label = "access"
