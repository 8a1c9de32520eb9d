"""`manage.py why NODE`: why it is held, or why nothing happens."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels.reasons import manual
from fleet.readmodels.why import NoSuchNode, why


class Command(BaseCommand):
    help = "Say why a node is held, or why nothing happens."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("node", nargs="?", default="")
        parser.add_argument("--cluster", default="")
        parser.add_argument("--json", action="store_true", help="print the whole answer as JSON")
        parser.add_argument("--reasons", action="store_true", help="print the page on every reason (docs/why.md)")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["reasons"]:
            self.stdout.write(manual.page(), ending="")
            return
        if not options["node"]:
            raise CommandError("Name a node, or ask for --reasons.")
        try:
            answer = why(options["cluster"], options["node"], SYSTEM_CLOCK.now())
        except NoSuchNode as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            # Scripts chain look-ups on `blocked`, which null would break: an empty object stands for null there. It is
            # as false as null; the API, whose schema has types, says null.
            self.stdout.write(json.dumps({**answer, "blocked": answer["blocked"] or {}}))
            return
        self.stdout.write(f"{answer['node']}: {answer['state']}, {answer['verdict']}. {answer['text']}")
        blocked = answer["blocked"]
        if blocked:
            self.stdout.write(f"  blocked: {blocked['reason']}, until {blocked['until'] or 'a person acts'}")
            self.stdout.write(f"  waits for {blocked['waits_for']}, since {blocked['since']}")
            if blocked["line"]:
                self.stdout.write(f"  {blocked['line']['place']} of {blocked['line']['of']} that wait for it")
            self.stdout.write(f"  clears it: {blocked['clears']}")
            self.stdout.write(f"  what you can do: {blocked['do']}")
