"""`manage.py resume`: lift what `manage.py stop`, or Stop all on a page, has stopped."""

from __future__ import annotations

import getpass
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.policy.selectors import stopped
from fleet.policy.services import stop_all
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Let disruption start again after a stop."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--reason", required=True, help="kept in the audit log")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["reason"].strip():
            raise CommandError("Resuming takes a reason.")
        if stopped() is None:
            raise CommandError("Nothing is stopped.")
        by = f"{getpass.getuser()} (command line)"
        stop_all(stopped=False, by=by, reason=options["reason"], now=SYSTEM_CLOCK.now())
        self.stdout.write("Disruption may start again, one grant at a time.")
