"""`manage.py doctor`: what is missing on this machine, in words; code 1 when something is."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand

from fleet.ops.doctor import examine

SIGNS = {True: "ok", False: "MISSING", None: "note"}


class Command(BaseCommand):
    help = "Say in words what is missing: Python, disk, ports, database, Redis, rights in each cluster."
    requires_system_checks = []

    def handle(self, *args: Any, **options: Any) -> None:
        bad = 0
        for finding in examine():
            bad += finding.good is False
            self.stdout.write(f"{SIGNS[finding.good]:<8} {finding.what}: {finding.text}")
        if bad:
            self.stdout.flush()
            sys.exit(1)
