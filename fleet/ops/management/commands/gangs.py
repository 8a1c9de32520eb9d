"""`manage.py gangs lint FILE`: what a Ray manifest will run into, before it is submitted.

Decides nothing itself: the linter does. Ends with exit code 1 when something was found or could not be read, so that a
pipeline can stop it. Refuses to ask a cluster: the file alone is judged.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet import wiring
from fleet.gangs import linting
from fleet.gangs.conditions.condition import WORST_FIRST
from fleet.readmodels import gang_words


class Command(BaseCommand):
    help = "Checks manifests of Ray clusters and jobs for what keeps gangs from starting."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        lint = verbs.add_parser(
            "lint", help="says what a RayCluster, RayJob or RayService will run into, with the line"
        )
        lint.add_argument("file", help="YAML with one or several documents; - reads from standard input")
        lint.add_argument("--json", action="store_true", help="for machines")
        lint.add_argument(
            "--least", choices=WORST_FIRST, default=WORST_FIRST[-1], help="leave out what is less severe than this"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, "_" + options["verb"])(options)

    def _lint(self, options: dict[str, Any]) -> None:
        name = options["file"]
        report = linting.check(_text(name), wiring.gang_manifest)
        severe = WORST_FIRST[: WORST_FIRST.index(options["least"]) + 1]
        found = [one for one in report.found if one.condition.severity in severe]
        if options["json"]:
            self._machine(report, found)
        else:
            self._people(name, report, found)
        if report.wrong or found:
            sys.exit(1)
        if not report.looked:
            raise CommandError(f"{name}: holds no RayCluster, RayJob or RayService.")

    def _people(self, name: str, report: linting.Report, found: list[linting.Found]) -> None:
        for wrong in report.wrong:
            self.stderr.write(f"{name}:{wrong.line}: {f'{wrong.path}: ' if wrong.path else ''}{wrong.text}")
        for one in found:
            said = gang_words.told(one.condition)
            self.stdout.write(f"{name}:{one.line}: {said.severity}: {said.gang}: {said.sentence}")
            self.stdout.write(f"    {said.remedy}")
        if report.skipped:
            self.stdout.write(f"{name}: not looked at: {', '.join(sorted(set(report.skipped)))}.")
        if report.looked and not report.wrong and not found:
            self.stdout.write(f"{name}: good. {len(report.looked)} looked at.")

    def _machine(self, report: linting.Report, found: list[linting.Found]) -> None:
        shown = {
            "looked": report.looked,
            "skipped": report.skipped,
            "wrong": [{"line": one.line, "path": one.path, "text": one.text} for one in report.wrong],
            "found": [{"line": one.line, "path": one.path, **gang_words.as_json(one.condition)} for one in found],
        }
        self.stdout.write(json.dumps(shown, ensure_ascii=False, indent=1))


def _text(name: str) -> str:
    try:
        return sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{name} cannot be read: {error}") from error
