"""`manage.py user`: the accounts of people and their roles, the first one too.

Decides where a password comes from: the terminal, asked twice, or the first line of a file. Refuses a password on the
command line, where other processes can read it.
"""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import Any

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.access import services
from fleet.access.models import Role, User
from fleet.inventory import selectors
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Creates the accounts of people, gives roles, closes accounts, lists them."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        add = verbs.add_parser("add", help="create an account, or give an existing one another role")
        add.add_argument("name")
        add.add_argument("--role", choices=Role.values, required=True)
        add.add_argument("--cluster", default="", help="only in this cluster (default: everywhere)")
        add.add_argument("--password-file", type=Path, help="first line is the password; - reads standard input")
        close = verbs.add_parser("close", help="end an account: its roles go, its sessions stop")
        close.add_argument("name")
        verbs.add_parser("list", help="every account with its roles")

    def handle(self, *args: Any, **options: Any) -> None:
        by, now = f"{getpass.getuser()} (command line)", SYSTEM_CLOCK.now()
        if options["verb"] == "list":
            self._list()
        elif options["verb"] == "close":
            if not services.close_user(name=options["name"], now=now, by=by):
                raise CommandError(f"No open account is named {options['name']}.")
            self.stdout.write(f"{options['name']} is closed.")
        else:
            self._add(options, {"now": now, "by": by})

    def _add(self, options: dict[str, Any], act: dict[str, Any]) -> None:
        name, role, cluster = options["name"], options["role"], options["cluster"]
        try:
            if cluster:
                selectors.cluster_named(cluster)
        except selectors.UnknownCluster as error:
            raise CommandError(str(error)) from error
        known = User.objects.filter(username=name, is_active=True).exists()
        password = None if known and not options["password_file"] else _password(name, options["password_file"])
        services.ensure_user(name=name, password=password, role=role, cluster=cluster, **act)
        self.stdout.write(f"{name} is {role} {f'in {cluster}' if cluster else 'everywhere'}.")

    def _list(self) -> None:
        for user in User.objects.prefetch_related("grants").order_by("username"):
            roles = [f"{grant.role} {grant.cluster or 'everywhere'}" for grant in user.grants.all()]
            roles += ["admin everywhere (superuser)"] if user.is_superuser else []
            self.stdout.write(f"{user.username}: {', '.join(roles) if user.is_active else 'closed'}")


def _password(name: str, file: Path | None) -> str:
    if file is None:
        if not sys.stdin.isatty():
            raise CommandError("No terminal to ask at: give --password-file FILE, or - for standard input.")
        password = getpass.getpass(f"Password of {name}: ")
        if password != getpass.getpass("Once more: "):
            raise CommandError("The two differ.")
    else:
        text = sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8")
        password = text.splitlines()[0] if text else ""
    try:
        validate_password(password, User(username=name))
    except ValidationError as error:
        raise CommandError(" ".join(error.messages)) from error
    return password
