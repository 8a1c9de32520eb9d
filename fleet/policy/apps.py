"""Django app of fleet.policy."""

from django.apps import AppConfig


class PolicyConfig(AppConfig):
    name = "fleet.policy"
    label = "policy"
