"""`manage.py prepare`: bring the database's tables up to date.

Decides that only one prepares at a time: an advisory lock makes the others wait, then find nothing left to do. Refuses
nothing that `migrate` allows.
"""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.core.management.base import BaseCommand
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

LOCK = 0x6D757374  # "must"


class Command(BaseCommand):
    help = "Migrate the database under a lock; safe to run from many places at once."
    requires_system_checks = []

    def _applied(self) -> int:
        return len(MigrationRecorder(connection).applied_migrations())

    def handle(self, *args: Any, **options: Any) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [LOCK])
            try:
                before = self._applied()
                call_command("migrate", interactive=False, verbosity=0, skip_checks=True)
                self.stdout.write(f"database ready, {self._applied() - before} migrations applied")
            finally:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [LOCK])
