"""A book of playbooks as a file: versioned YAML, read whole or not at all.

    version: 1
    playbooks:
      - name: reboot
        title: A reboot, then people
        match: {action: [reboot_node], pool_kind: [bare_metal]}
        attempts: 2
        steps: [hold, drain: {deadline: 4h}, reboot: {ladder: [reboot, power_cycle]}, validate, soak, return]

Decides what the file says and, of each mistake, the line, the playbook and what is allowed; all of them at once.
Refuses unknown versions, names and keys, doubled names and unsafe plans. Pure: the caller reads the file.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Any

import yaml

from fleet.lifecycle.playbooks import (
    AT_DEADLINE,
    MAX_ATTEMPTS,
    ON_FAILURE,
    REMEDIES,
    VERBS,
    Match,
    PlannedStep,
    Playbook,
    faults_of,
)
from fleet.ports import plainyaml

VERSION = 1
MAX_CHARS = 1_000_000
MOST_ATTEMPTS = 5
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_TIME = re.compile(r"(\d+(?:\.\d+)?)(s|m|h|d)?")
_UNITS = {None: 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_KEYS = ("name", "title", "match", "attempts", "steps")
_STEP_KEYS = ("deadline", "at_deadline", "retries", "backoff", "on_failure", "ladder")


@dataclass(frozen=True, slots=True)
class Mistake:
    line: int
    text: str


class BadPlaybooks(Exception):
    """The file cannot be used. `mistakes` are in the order of its lines."""

    def __init__(self, name: str, mistakes: list[Mistake]) -> None:
        self.name, self.mistakes = name, sorted(mistakes, key=lambda mistake: mistake.line)
        super().__init__("\n".join(f"{name}:{mistake.line}: {mistake.text}" for mistake in self.mistakes))


def parse(text: str, name: str, source: str = "") -> tuple[Playbook, ...]:
    """The playbooks of a file of that name, in its order. Raises BadPlaybooks."""
    reader = _Reader(source or name)
    found = reader.read(text)
    if reader.mistakes:
        raise BadPlaybooks(name, reader.mistakes)
    return found


def seconds(value: object) -> float | None:
    """Of `90`, `90s`, `15m`, `4h`, `1d`; None for anything else and for what is not above zero."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _TIME.fullmatch(str(value).strip())
    found = float(match[1]) * _UNITS[match[2]] if match else 0.0
    return found if 0 < found <= 30 * 86400 else None


class _Reader:
    def __init__(self, source: str) -> None:
        self.mistakes: list[Mistake] = []
        self.source = source
        self.line = 1

    def read(self, text: str) -> tuple[Playbook, ...]:
        try:
            if len(text) > MAX_CHARS:
                raise yaml.YAMLError("the file is too long")
            data = plainyaml.load(text)
            tree = yaml.compose(text, Loader=yaml.SafeLoader)
        except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
            mark = getattr(error, "problem_mark", None)
            said = getattr(error, "problem", None) or str(error)
            self.mistakes.append(Mistake(mark.line + 1 if mark else 1, f"This is no YAML: {said}."))
            return ()
        if not isinstance(data, dict) or data.get("version") != VERSION:
            self._say(f"The file must hold `version: {VERSION}` and `playbooks`.")
            return ()
        if unknown := [key for key in data if key not in ("version", "playbooks")]:
            self._say(f"There is no section {unknown[0]!r}.")
        wanted = data.get("playbooks")
        if not isinstance(wanted, list):
            self._say("`playbooks` must be a list.")
            return ()
        found: list[Playbook] = []
        lines = _lines(tree)
        if len(lines) != len(wanted):
            self._say("`playbooks` must stand once, in the mapping itself.")
            return ()
        for item, line in zip(wanted, lines, strict=True):
            self.line = line
            playbook = self._playbook(item)
            if playbook is None:
                continue
            if playbook.name in {other.name for other in found}:
                self._say(f"There are two playbooks named {playbook.name}.")
            found.append(playbook)
        return tuple(found)

    def _say(self, text: str) -> None:
        self.mistakes.append(Mistake(self.line, text))

    def _playbook(self, item: object) -> Playbook | None:
        if not isinstance(item, dict):
            self._say(f"A playbook must be a mapping, not {item!r}.")
            return None
        name = item.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self._say(f"The name {name!r} must be lower-case letters, digits and hyphens.")
            return None
        before = len(self.mistakes)
        if unknown := [key for key in item if key not in _KEYS]:
            self._say(f"{name}: there is no key {unknown[0]!r}; there are {', '.join(_KEYS)}.")
        attempts = item.get("attempts", MAX_ATTEMPTS)
        if isinstance(attempts, bool) or not isinstance(attempts, int) or not 1 <= attempts <= MOST_ATTEMPTS:
            self._say(f"{name}: attempts must be a number from 1 to {MOST_ATTEMPTS}.")
        match = self._match(name, item.get("match", {}))
        steps = self._steps(name, item.get("steps"))
        if len(self.mistakes) == before:
            for told in faults_of(steps, match.pool_kind):
                self._say(f"{name}: {told}")
        title = item.get("title", name)
        if not isinstance(title, str) or not title.isprintable():
            self._say(f"{name}: title must be a text on one line.")
        return (
            Playbook(name, title[:200], match, steps, attempts, self.source) if len(self.mistakes) == before else None
        )

    def _match(self, name: str, wanted: object) -> Match:
        if not isinstance(wanted, dict):
            self._say(f"{name}: match must be a mapping, not {wanted!r}.")
            return Match()
        known = {field.name for field in fields(Match)}
        good: dict[str, Any] = {}
        for key, value in wanted.items():
            if key not in known:
                self._say(f"{name}: match has no key {key!r}; there are {', '.join(sorted(known))}.")
            elif key == "recurring":
                if not isinstance(value, bool):
                    self._say(f"{name}: recurring is true or false.")
                good[key] = value
            else:
                names = value if isinstance(value, list) else [value]
                if not all(isinstance(one, str) and one for one in names):
                    self._say(f"{name}: match.{key} must be a name or a list of names.")
                    continue
                good[key] = tuple(names)
        return Match(**good)

    def _steps(self, name: str, wanted: object) -> tuple[PlannedStep, ...]:
        if not isinstance(wanted, list) or not wanted:
            self._say(f"{name}: steps must be a list of verbs.")
            return ()
        found = [self._step(name, item) for item in wanted]
        return tuple(step for step in found if step is not None)

    def _step(self, name: str, item: object) -> PlannedStep | None:
        if isinstance(item, str):
            item = {item: {}}
        if not isinstance(item, dict) or len(item) != 1:
            self._say(f"{name}: a step is a verb, or a verb with its settings, not {item!r}.")
            return None
        verb, wanted = next(iter(item.items()))
        if verb not in VERBS or not isinstance(wanted, dict | None):
            self._say(f"{name}: {verb!r} is no verb with settings; verbs are {', '.join(VERBS)}.")
            return None
        good: dict[str, Any] = {}
        for key, value in (wanted or {}).items():
            read = self._setting(key, value)
            if read is None:
                self._say(f"{name}: {verb}.{key} cannot be {value!r}; {_ALLOWED.get(key, 'there is no such setting')}.")
            else:
                good[key] = read
        return PlannedStep(verb, **good)

    @staticmethod
    def _setting(key: object, value: Any) -> Any:
        """The value as the plan holds it; None if it is not allowed."""
        if key in ("deadline", "backoff"):
            return seconds(value)
        if key == "retries":
            return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10 else None
        if key == "ladder":
            named = isinstance(value, list) and value and all(isinstance(one, str) and one in REMEDIES for one in value)
            return tuple(value) if named else None
        allowed = {"at_deadline": AT_DEADLINE, "on_failure": ON_FAILURE}.get(str(key), ())
        return value if value in allowed else None


_ALLOWED = {
    "deadline": "a time above zero such as 90s, 15m or 4h",
    "backoff": "a time above zero such as 10s",
    "retries": "a number from 0 to 10",
    "ladder": f"a list out of {', '.join(REMEDIES)}",
    "at_deadline": f"one of {', '.join(AT_DEADLINE)}",
    "on_failure": f"one of {', '.join(ON_FAILURE)}",
}


def _lines(tree: yaml.Node | None) -> list[int]:
    """The line of each item of `playbooks`."""
    if isinstance(tree, yaml.MappingNode):
        for key, value in tree.value:
            if getattr(key, "value", "") == "playbooks" and isinstance(value, yaml.SequenceNode):
                return [item.start_mark.line + 1 for item in value.value]
    return []
