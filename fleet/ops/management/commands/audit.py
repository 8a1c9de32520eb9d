"""`manage.py audit verify`: is every audit chain whole?"""

from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.audit.selectors import chains, verify


class Command(BaseCommand):
    help = "Verify the hash chains of the audit log."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("action", choices=["verify"])
        parser.add_argument("--chain", default="", help="one chain only, e.g. cluster:1")

    def handle(self, *args: Any, **options: Any) -> None:
        broken = 0
        for chain in [options["chain"]] if options["chain"] else chains():
            found = verify(chain)
            broken += bool(found.problem)
            self.stdout.write(f"{chain}: {found.rows} rows, {found.problem or 'whole'}")
        if broken:
            raise CommandError(f"{broken} chain(s) broken")
