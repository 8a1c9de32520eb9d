"""A site's rules as a file: versioned YAML, read whole or not at all.

    version: 1
    rules:
      thermal: {threshold: 85, severity: unhealthy}
      ib-rnr: {shadow: true}
    codes:
      xid:
        63: {severity: unhealthy, action_class: reset_gpu}
    pools:
      h100-train:
        pcie-replay: {threshold: 60, window: 600}
        codes:
          sxid:
            11004: {severity: none}

Decides what the file says and, of each mistake, the line, the rule, the field and what is allowed; all of them at once,
so that nobody mends one to find the next. Refuses unknown versions, unknown names and doubled keys. Pure: the caller
reads the file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import yaml

from fleet.health.rules import codes
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.codes import Codes
from fleet.health.rules.tuning import Tuning, wrong, wrong_rule, wrong_whole
from fleet.health.rules.types import Meaning, Rule
from fleet.ports import plainyaml

VERSION = 1
MAX_CHARS = 1_000_000
_TOP = ("version", "rules", "codes", "pools")
_DEEPEST = 6  # pools, a pool, codes, a family, a code, a setting


@dataclass(frozen=True, slots=True)
class Mistake:
    line: int
    text: str


class BadRules(Exception):
    """The file cannot be used. `mistakes` are in the order of its lines."""

    def __init__(self, name: str, mistakes: list[Mistake]) -> None:
        self.name, self.mistakes = name, sorted(mistakes, key=lambda mistake: mistake.line)
        super().__init__("\n".join(f"{name}:{mistake.line}: {mistake.text}" for mistake in self.mistakes))


def parse(text: str, name: str) -> Tuning:
    """The rules of a file of that name. Raises BadRules."""
    reader = _Reader()
    tuning = reader.read(text)
    if reader.mistakes:
        raise BadRules(name, reader.mistakes)
    return tuning


class _Reader:
    def __init__(self) -> None:
        self.mistakes: list[Mistake] = []
        self.lines: dict[tuple[object, ...], int] = {}

    def read(self, text: str) -> Tuning:
        try:
            if len(text) > MAX_CHARS:
                raise yaml.YAMLError("the file is too long")
            node = yaml.compose(text, Loader=yaml.SafeLoader)
            if node is not None:
                self._note((), node, 0)
            data = plainyaml.load(text) if not self.mistakes else {"version": VERSION}
        except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
            mark = getattr(error, "problem_mark", None)
            said = getattr(error, "problem", None) or str(error)
            self.mistakes.append(Mistake(mark.line + 1 if mark else 1, f"This is no YAML: {said}."))
            return Tuning()
        if not isinstance(data, dict):
            self._say((), "The file must hold version, rules, codes and pools.")
            return Tuning()
        if data.get("version") != VERSION:
            self._say(("version",), f"The version is {data.get('version')!r}; this Muster reads version {VERSION}.")
        for key in data:
            if key not in _TOP:
                self._say((key,), f"There is no section {key!r}; there are {', '.join(_TOP)}.")
        rules = self._rules(("rules",), data.get("rules"), DEFAULTS)
        site = self._codes(("codes",), data.get("codes"), {})
        pools: dict[str, dict[str, Rule]] = {}
        of_pools: dict[str, dict[codes.Key, Meaning]] = {}
        for pool, wanted in self._mapping(("pools",), data.get("pools")).items():
            mine = dict(self._mapping(("pools", pool), wanted))
            own_codes = self._codes(("pools", pool, "codes"), mine.pop("codes", None), site)
            own = self._rules(("pools", pool), mine, {**DEFAULTS, **rules})
            if own:
                pools[str(pool)] = own
            if own_codes:
                of_pools[str(pool)] = own_codes
        return Tuning({**DEFAULTS, **rules}, pools, Codes(site, of_pools))

    def _codes(
        self, path: tuple[object, ...], wanted: object, base: dict[codes.Key, Meaning]
    ) -> dict[codes.Key, Meaning]:
        found: dict[codes.Key, Meaning] = {}
        for family, of_family in self._mapping(path, wanted).items():
            for code, changes in self._mapping((*path, family), of_family).items():
                here = (*path, family, code)
                if said := codes.wrong_code(family, code):
                    self._say(here, said)
                    continue
                settings = self._mapping(here, changes)
                before = len(self.mistakes)
                for key, value in settings.items():
                    if said := codes.wrong_word(family, code, key, value):
                        self._say((*here, key), said)
                if len(self.mistakes) > before:
                    continue
                place = (str(family), str(code))
                found[place] = codes.changed(base.get(place) or codes.by_table(*place), settings)
                if said := codes.wrong_whole(family, code, found[place]):
                    self._say(here, said)
        return found

    def _rules(self, path: tuple[object, ...], wanted: object, base: dict[str, Rule]) -> dict[str, Rule]:
        found: dict[str, Rule] = {}
        for rule_id, changes in self._mapping(path, wanted).items():
            here = (*path, rule_id)
            if said := wrong_rule(rule_id):
                self._say(here, said)
                continue
            good: dict[str, Any] = {}
            for key, value in self._mapping(here, changes).items():
                if said := wrong(rule_id, key, value):
                    self._say((*here, key), said)
                else:
                    good[key] = value
            found[rule_id] = replace(base[rule_id], **good)
            if said := wrong_whole(found[rule_id]):
                self._say(here, said)
        return found

    def _mapping(self, path: tuple[object, ...], value: object) -> dict[Any, Any]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            self._say(path, f"{'.'.join(map(str, path))} must be a mapping of names, not {value!r}.")
            return {}
        return value

    def _note(self, path: tuple[object, ...], node: yaml.Node, depth: int) -> None:
        """Remember the line of each key, and find the doubled ones, which YAML would pass over in silence."""
        if not isinstance(node, yaml.MappingNode) or depth >= _DEEPEST:
            return
        for key, value in node.value:
            here = (*path, key.value if isinstance(key, yaml.ScalarNode) else "?")
            if here in self.lines:
                text = f"{'.'.join(map(str, here))} stands here and in line {self.lines[here]}."
                self.mistakes.append(Mistake(key.start_mark.line + 1, text))
            self.lines[here] = key.start_mark.line + 1
            self._note(here, value, depth + 1)

    def _say(self, path: tuple[object, ...], text: str) -> None:
        while path and tuple(map(str, path)) not in self.lines:
            path = path[:-1]
        self.mistakes.append(Mistake(self.lines.get(tuple(map(str, path)), 1), text))
