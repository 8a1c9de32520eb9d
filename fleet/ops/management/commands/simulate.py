"""`manage.py simulate`: the simulated fleet, with the paths of this installation.

It decides nothing of its own. It refuses to load the domain: the simulator is a stranger to it.
"""

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.simulator.options import add_arguments, from_arguments
from fleet.simulator.server import serve


class Command(BaseCommand):
    help = "Run a simulated GPU fleet: Kubernetes API, exporters, kernel logs and BMCs over HTTP."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_arguments(parser, settings.VAR)

    def handle(self, *args: Any, **options: Any) -> None:
        complaints: list[str] = []
        chosen = from_arguments(argparse.Namespace(**options))
        code = serve(chosen, lambda text: self.stdout.write(text), complaints.append)
        if code:
            raise CommandError("\n".join(complaints), returncode=code)
