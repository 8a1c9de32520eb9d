"""`manage.py rules check FILE | list | show [RULE] | manual`: a site's rules, before and after they hold.

Decides nothing itself: the file's reader does. Refuses a file with mistakes by exit code 1, every mistake on a line of
its own, so that a pipeline can stop a bad change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import yaml
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from fleet.health.rules import manual, wording
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.siterules import BadRules, parse
from fleet.health.rules.tuning import Tuning, settings_of
from fleet.health.rules.types import Meaning, Rule


class Command(BaseCommand):
    help = "Checks a file of a site's rules, or lists the rules that hold here."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        check = verbs.add_parser("check", help="says every mistake in a rules file, with its line")
        check.add_argument("file")
        verbs.add_parser("list", help="one line for each rule that holds here")
        show = verbs.add_parser("show", help="the settings that hold here, as a rules file; or all of one rule")
        show.add_argument("rule", nargs="?", default="")

        verbs.add_parser("manual", help="writes the page on the rules that lies in docs/")

    def handle(self, *args: Any, **options: Any) -> None:
        getattr(self, "_" + options["verb"])(options)

    def _check(self, options: dict[str, Any]) -> None:
        tuning = self._read(options["file"])
        changed = [rule.id for rule in tuning.rules.values() if rule != DEFAULTS[rule.id]]
        pools = {pool: len(rules) for pool, rules in tuning.pools.items()}
        of_pools = "".join(f", {count} of pool {pool}" for pool, count in pools.items())
        self.stdout.write(f"{options['file']}: good. It changes {len(changed)} rules of the site{of_pools}.")

    def _manual(self, options: dict[str, Any]) -> None:
        self.stdout.write(manual.page(), ending="")

    def _list(self, options: dict[str, Any]) -> None:
        tuning = self._read(settings.RULES_FILE) if settings.RULES_FILE else Tuning()
        for rule in tuning.rules.values():
            mark = "off" if not rule.enabled else "shadow" if rule.shadow else "on"
            mode = "" if rule.mode == "automate" else f" ({rule.mode})"
            changed = "*" if rule != DEFAULTS[rule.id] else " "
            told = f"{rule.severity:<10} {rule.action_class:<16} {wording.limit(rule):<24} {rule.title}{mode}"
            self.stdout.write(f"{changed} {rule.id:<24} {mark:<7} {told}")

    def _show(self, options: dict[str, Any]) -> None:
        tuning = self._read(settings.RULES_FILE) if settings.RULES_FILE else Tuning()
        wanted = options["rule"]
        if wanted:
            if wanted not in tuning.rules:
                raise CommandError(f"There is no rule {wanted!r}: manage.py rules list.")
            shown: dict[str, Any] = {
                wanted: {
                    **asdict(tuning.rules[wanted]),
                    "reads": list(tuning.rules[wanted].reads),
                    "tunes": list(settings_of(tuning.rules[wanted])),
                }
            }
        else:
            rules = {rule.id: _settings(rule) for rule in tuning.rules.values()}
            pools = {
                pool: {rule.id: _settings(rule) for rule in tuning.pools.get(pool, {}).values()}
                | _codes(tuning.codes.pools.get(pool, {}))
                for pool in (*tuning.pools, *(name for name in tuning.codes.pools if name not in tuning.pools))
            }
            shown = {"version": 1, "rules": rules, **_codes(tuning.codes.site), **({"pools": pools} if pools else {})}
        self.stdout.write(yaml.safe_dump(shown, sort_keys=False, width=110, default_flow_style=None))

    def _read(self, file: str) -> Tuning:
        try:
            return parse(Path(file).read_text(encoding="utf-8"), file)
        except (OSError, UnicodeDecodeError) as error:
            raise CommandError(f"{file} cannot be read: {error}") from error
        except BadRules as error:
            raise CommandError(str(error)) from error


def _settings(rule: Rule) -> dict[str, Any]:
    return {key: getattr(rule, key) for key in settings_of(rule)}


def _codes(said: Mapping[tuple[str, str], Meaning]) -> dict[str, Any]:
    families: dict[str, dict[int | str, dict[str, str]]] = {}
    for (family, code), what in said.items():
        words: dict[str, str] = {"severity": what.severity or "none"}
        words |= {"action_class": what.action} if what.severity else {}
        families.setdefault(family, {})[int(code) if code.isdigit() else code] = words
    return {"codes": families} if families else {}
