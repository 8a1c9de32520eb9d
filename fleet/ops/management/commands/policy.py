"""`manage.py policy show|check|diff|apply|history`: the policy as one document.

Decides nothing: `fleet.policy.versions` says what holds at once and what waits for another person. Refuses to approve:
who sits at a shell is not proved to be another person than the requester; approvals are given on the page.
"""

from __future__ import annotations

import getpass
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from fleet.policy import versions
from fleet.policy.document import Policy, text_of
from fleet.policy.document_file import BadPolicy
from fleet.policy.loosening import Change, compare
from fleet.policy.models import PolicyVersion
from fleet.ports.clock import SYSTEM_CLOCK


class Command(BaseCommand):
    help = "Show the policy (or one version of it), check a file, tell what it would change, apply it, list versions."

    def add_arguments(self, parser: ArgumentParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        show = verbs.add_parser("show", help="the policy in force as a document")
        show.add_argument("version", nargs="?", default="", help="a version such as POL-7")
        for verb, help_text in (
            ("check", "say what is wrong with a file; - reads standard input"),
            ("diff", "say what a file would change, and what of that loosens a limit"),
            ("apply", "make a file the policy; what loosens a limit waits for another person's approval"),
        ):
            one = verbs.add_parser(verb, help=help_text)
            one.add_argument("file")
        one.add_argument("--reason", required=True)
        verbs.add_parser("history", help="every version, newest first")

    def handle(self, *args: Any, **options: Any) -> None:
        match options["verb"]:
            case "show":
                self.stdout.write(_version(options["version"]) if options["version"] else text_of(versions.current()))
            case "history":
                for row in PolicyVersion.objects.order_by("-pk"):
                    state = f"in force from {row.applied_at:%Y-%m-%d %H:%M} UTC" if row.applied_at else "not in force"
                    self.stdout.write(
                        f"{row.label} {row.created_at:%Y-%m-%d %H:%M} {row.author}: {row.reason} ({state})"
                    )
            case "check":
                _read(options["file"])
                self.stdout.write(f"{options['file']} is a policy without mistakes.")
            case "diff":
                self._diff(_read(options["file"]))
            case "apply":
                self._apply(_read(options["file"]), options["reason"])

    def _diff(self, new: Policy) -> None:
        changes = compare(versions.current(), new, SYSTEM_CLOCK.now())
        for change in changes:
            self.stdout.write(_line(change))
        self.stdout.write(versions.diff_of(text_of(versions.current()), text_of(new)) or "Nothing differs.")

    def _apply(self, new: Policy, reason: str) -> None:
        by = f"{getpass.getuser()} (command line)"
        try:
            row = versions.propose(new, by, reason, SYSTEM_CLOCK.now())
        except versions.Refused as error:
            raise CommandError(str(error)) from error
        for change in row.changes:
            self.stdout.write(_line(Change(**change)))
        if row.applied_at:
            self.stdout.write(f"{row.label} is in force.")
        else:
            self.stdout.write(
                f"{row.label} loosens a limit: it waits for another person's approval on the policy page."
            )


def _read(file: str) -> Policy:
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
        return versions.read(text, file)
    except (OSError, UnicodeDecodeError, BadPolicy) as error:
        raise CommandError(str(error)) from error


def _version(label: str) -> str:
    number = label.upper().removeprefix("POL-")
    row = PolicyVersion.objects.filter(pk=int(number)).first() if number.isdecimal() else None
    if row is None:
        raise CommandError(f"There is no version {label}; manage.py policy history lists them.")
    return row.text


def _line(change: Change) -> str:
    where = change.cluster or "every cluster"
    sign = "looser " if change.loosens else "tighter"
    return f"{sign}  {where}  {change.what}: {change.old or 'nothing'} -> {change.new or 'nothing'}"
