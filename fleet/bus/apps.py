"""Django app of fleet.bus."""

from django.apps import AppConfig


class BusConfig(AppConfig):
    name = "fleet.bus"
    label = "bus"
