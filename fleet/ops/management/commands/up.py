"""`manage.py up`: listed here so that `manage.py help` knows it; `manage.py` itself hands it to `fleet.ops.up`."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from fleet.ops.up import main


class Command(BaseCommand):
    help = "Run all of Muster on this machine: embedded servers, web, worker, beat and an observer per cluster."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--demo", action="store_true", help="with a simulated fleet instead of real clusters")

    def handle(self, *args: Any, **options: Any) -> None:
        sys.exit(main(["--demo"] if options["demo"] else []))
