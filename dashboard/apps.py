"""Django app of the pages."""

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"
