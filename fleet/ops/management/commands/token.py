"""`manage.py token create`: a machine's credential.

Decides where the secret goes: to standard output, or to a file only its owner reads. Refuses to show it ever again.
"""

from __future__ import annotations

import getpass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.access.models import User
from fleet.access.services import SCOPES, create_token
from fleet.inventory import selectors
from fleet.ops.processes import write_atomically
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Creates a token for a machine and shows its secret once."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        verb = verbs.add_parser("create", help="create a token")
        verb.add_argument("--scope", choices=SCOPES, required=True)
        verb.add_argument("--cluster", default="", help="only for this cluster")
        verb.add_argument("--node", default="", help="a pushing token that may speak for this node alone")
        verb.add_argument("--user", default="", help="for scope act: the person for whom it stands")
        verb.add_argument("--name", default="", help="a name to recognise it by")
        verb.add_argument("--out", type=Path, help="write the secret to this file (mode 0600) instead of showing it")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["cluster"]:
                selectors.cluster_named(options["cluster"])
        except selectors.UnknownCluster as error:
            raise CommandError(str(error)) from error
        if options["scope"] == "push" and not options["cluster"]:
            raise CommandError("A pushing token needs --cluster NAME.")
        user = User.objects.filter(username=options["user"], is_active=True).first()
        if options["scope"] == "act" and user is None:
            raise CommandError("A token that acts needs --user NAME, an account that is open.")
        told = (options["scope"], options["user"], options["cluster"], options["node"])
        name = options["name"] or " ".join(filter(None, told))
        _, secret = create_token(
            name=name,
            scope=options["scope"],
            now=SYSTEM_CLOCK.now(),
            by=f"{getpass.getuser()} (command line)",
            cluster=options["cluster"],
            node=options["node"],
            user=user if options["scope"] == "act" else None,
        )
        if options["out"]:
            options["out"].parent.mkdir(parents=True, exist_ok=True)
            write_atomically(options["out"], secret + "\n", mode=0o600)
            self.stdout.write(f"The secret is in {options['out']}.")
        else:
            self.stdout.write(secret)
