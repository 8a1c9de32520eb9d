"""`manage.py stop`: no new disruption anywhere from now on. `manage.py resume` lifts it."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from fleet.policy.services import stop_all
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Stop all new disruption in every cluster at once; detection, tickets and safe completion go on."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reason", default="", help="kept in the audit log and shown on every page")

    def handle(self, *args: Any, **options: Any) -> None:
        by, now = f"{getpass.getuser()} (command line)", SYSTEM_CLOCK.now()
        stop_all(stopped=True, by=by, reason=options["reason"], now=now)
        self.stdout.write("All new disruption is stopped. A call to a BMC that is under way may last 6 s more.")
        self.stdout.write("manage.py resume --reason ... lets it start again.")
