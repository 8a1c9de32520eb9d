"""Django app of fleet.tickets."""

from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "fleet.tickets"
    label = "tickets"
