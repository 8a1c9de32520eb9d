"""Django app of fleet.lifecycle."""

from django.apps import AppConfig


class LifecycleConfig(AppConfig):
    name = "fleet.lifecycle"
    label = "lifecycle"
