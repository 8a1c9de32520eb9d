"""Django app of fleet.gangs."""

from django.apps import AppConfig


class GangsConfig(AppConfig):
    name = "fleet.gangs"
    label = "gangs"
