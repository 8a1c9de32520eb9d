"""Suites of tests as a file: versioned YAML, read whole or not at all.

    version: 1
    suites:
      - name: h100
        match: {pool: ["h100-*"], sku: ["*H100*"]}
        tests:
          - dcgm: {level: {validate: 2, confirm: 3, burn_in: 3}}
          - nccl: {image: registry.example/nccl-tests:2.17, at_least: 460}
          - storage: {mounts: [/data, "/home:ro"], below: warn}
    burn_in: {pools: ["h100-*"], every: 7d, at_once: 2, from: "01:00", to: "06:00", zone: Asia/Seoul}
    confirm: {pools: ["h100-*"]}

Decides what the file says. Refuses unknown versions, names and keys and impossible values, all told at once. Pure: the
caller reads the file.
"""

from __future__ import annotations

import re
from datetime import time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from fleet.lifecycle.playbook_file import seconds
from fleet.lifecycle.validation.findings import Status
from fleet.lifecycle.validation.judge import Limit
from fleet.lifecycle.validation.reading import EXIT_CODE, KINDS, STORAGE
from fleet.lifecycle.validation.suite import ALL_GPUS, LIMITS, PURPOSES, BurnIn, Suite, Suites, Test
from fleet.ports import plainyaml

VERSION = 1
MAX_CHARS = 200_000
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,19}")  # part of a Job's name
MOUNT = re.compile(r"/[A-Za-z0-9._/-]{0,200}(:ro)?")
_TEST_KEYS = (
    "name", "image", "command", "level", "minutes", "gpus", "mounts", "at_least", "of_baseline", "below", "only",
)  # fmt: skip
_BURN_IN_KEYS = ("pools", "every", "at_once", "priority_class", "from", "to", "zone")


class BadSuites(Exception):
    """The file cannot be used; one sentence per mistake."""

    def __init__(self, name: str, mistakes: list[str]) -> None:
        self.mistakes = mistakes
        super().__init__(f"{name}: " + " ".join(mistakes))


def parse(text: str, name: str, source: str = "") -> Suites:
    """The suites of a file of that name. Raises BadSuites."""
    reader = _Reader(source or name)
    found = reader.read(text)
    if reader.mistakes:
        raise BadSuites(name, reader.mistakes)
    return found


class _Reader:
    def __init__(self, source: str) -> None:
        self.source = source
        self.mistakes: list[str] = []

    def read(self, text: str) -> Suites:
        try:
            if len(text) > MAX_CHARS:
                raise yaml.YAMLError("the file is too long")
            data = plainyaml.load(text)
        except (yaml.YAMLError, ValueError, RecursionError, TypeError) as error:
            self.mistakes.append(f"This is no YAML: {error}")
            return Suites()
        if not isinstance(data, dict) or data.get("version") != VERSION:
            self.mistakes.append(f"The file must hold `version: {VERSION}`.")
            return Suites()
        self._known("The file", data, ("version", "suites", "burn_in", "confirm"))
        suites = [suite for item in self._list("suites", data.get("suites")) if (suite := self._suite(item))]
        if len({suite.name for suite in suites}) < len(suites):
            self.mistakes.append("Two suites have the same name.")
        confirm = self._mapping("confirm", data.get("confirm"))
        self._known("confirm", confirm, ("pools",))
        return Suites(
            tuple(suites), self._burn_in(data.get("burn_in")), self._names("confirm.pools", confirm.get("pools"))
        )

    def _suite(self, item: object) -> Suite | None:
        told = self._mapping("a suite", item)
        name = told.get("name")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.mistakes.append(f"The suite's name {name!r} must be up to 20 lower-case letters, digits and hyphens.")
            return None
        self._known(name, told, ("name", "match", "tests"))
        match = self._mapping(f"{name}.match", told.get("match"))
        self._known(f"{name}.match", match, ("pool", "pool_kind", "sku"))
        tests = [test for one in self._list(f"{name}.tests", told.get("tests")) if (test := self._test(name, one))]
        if not tests:
            self.mistakes.append(f"{name}: a suite has at least one test.")
        if len({test.name for test in tests}) < len(tests):
            self.mistakes.append(f"{name}: two tests have the same name.")
        names = {key: self._names(f"{name}.match.{key}", match.get(key)) for key in ("pool", "pool_kind", "sku")}
        return Suite(name, tuple(tests), source=self.source, **names)

    def _test(self, suite: str, item: object) -> Test | None:
        if isinstance(item, str):
            item = {item: {}}
        if not isinstance(item, dict) or len(item) != 1 or next(iter(item)) not in KINDS:
            self.mistakes.append(f"{suite}: a test is one of {', '.join(KINDS)} with its settings, not {item!r}.")
            return None
        kind, wanted = next(iter(item.items()))
        told = self._mapping(f"{suite}.{kind}", wanted)
        where = f"{suite}.{kind}"
        self._known(where, told, _TEST_KEYS)
        name = told.get("name", kind.replace("_", "-"))
        if not isinstance(name, str) or not NAME.fullmatch(name):
            self.mistakes.append(f"{where}: the name {name!r} must be up to 20 lower-case letters, digits and hyphens.")
            return None
        mounts = self._names(f"{where}.mounts", told.get("mounts"))
        if any(not MOUNT.fullmatch(mount) or ".." in mount for mount in mounts):
            self.mistakes.append(f"{where}: mounts are absolute paths, with :ro where nothing may be written.")
        if kind == STORAGE and not mounts:
            self.mistakes.append(f"{where}: a storage probe needs its mounts.")
        command = self._names(f"{where}.command", told.get("command"))
        if kind == EXIT_CODE and not command:
            self.mistakes.append(f"{where}: it needs a command.")
        image = told.get("image", "")
        if not isinstance(image, str) or len(image) > 500 or not image.isprintable():
            self.mistakes.append(f"{where}: the image must be a text.")
        return Test(
            name=name,
            kind=str(kind),
            image=str(image),
            command=command,
            levels=self._levels(where, told.get("level")),
            minutes=self._whole(f"{where}.minutes", told.get("minutes", 0), 0, 24 * 60),
            gpus=self._gpus(where, told.get("gpus", 0 if kind in (STORAGE, EXIT_CODE) else "all")),
            mounts=mounts,
            limit=self._limit(where, str(kind), told),
            purposes=self._purposes(where, told.get("only")),
        )

    def _limit(self, where: str, kind: str, told: dict[str, Any]) -> Limit:
        usual = LIMITS.get(kind, Limit())
        at_least = self._number(f"{where}.at_least", told.get("at_least"), 1e9)
        share = self._number(f"{where}.of_baseline", told.get("of_baseline", usual.of_baseline), 1.0)
        below = told.get("below", usual.below.value)
        if below not in (Status.FAIL.value, Status.WARN.value):
            self.mistakes.append(f"{where}: below is fail or warn.")
            below = Status.FAIL.value
        return Limit(usual.measure, at_least, share, Status(below))

    def _levels(self, where: str, told: object) -> tuple[tuple[str, int], ...]:
        if told is None:
            return ()
        by = told if isinstance(told, dict) else dict.fromkeys(PURPOSES, told)
        self._known(f"{where}.level", by, PURPOSES)
        return tuple((str(key), self._whole(f"{where}.level.{key}", value, 1, 3)) for key, value in by.items())

    def _purposes(self, where: str, told: object) -> tuple[str, ...]:
        names = self._names(f"{where}.only", told)
        if unknown := [name for name in names if name not in PURPOSES]:
            self.mistakes.append(f"{where}: there is no purpose {unknown[0]!r}; there are {', '.join(PURPOSES)}.")
        return names or PURPOSES

    def _gpus(self, where: str, told: object) -> int:
        return ALL_GPUS if told == "all" else self._whole(f"{where}.gpus", told, 0, 64)

    def _burn_in(self, item: object) -> BurnIn | None:
        if item is None:
            return None
        told = self._mapping("burn_in", item)
        self._known("burn_in", told, _BURN_IN_KEYS)
        pools = self._names("burn_in.pools", told.get("pools"))
        if not pools:
            self.mistakes.append('burn_in: name its pools; ["*"] means all.')
        every = seconds(told.get("every", "7d"))
        if every is None or every < 3600:
            self.mistakes.append("burn_in.every must be a time of at least an hour, such as 7d.")
        start, end = self._clock("from", told.get("from")), self._clock("to", told.get("to"))
        if (start is None) != (end is None) or (start is not None and start == end):
            self.mistakes.append("burn_in: `from` and `to` belong together and differ.")
        zone, priority = told.get("zone", "UTC"), told.get("priority_class", "")
        try:
            ZoneInfo(str(zone))
        except (ValueError, OSError, KeyError):
            self.mistakes.append(f"burn_in: there is no time zone {zone!r}.")
        if not isinstance(priority, str) or not re.fullmatch(r"[a-z0-9.-]{0,63}", priority):
            self.mistakes.append("burn_in.priority_class must be the name of a PriorityClass.")
        at_once = self._whole("burn_in.at_once", told.get("at_once", 1), 1, 1000)
        return BurnIn(pools, timedelta(seconds=every or 0), at_once, str(priority), start, end, str(zone))

    def _clock(self, key: str, told: object) -> time | None:
        if told is None:
            return None
        match = re.fullmatch(r"([01]\d|2[0-3]):([0-5]\d)", told) if isinstance(told, str) else None
        if match is None:
            self.mistakes.append(f'burn_in.{key} must be a time of day in quotes, such as "01:30".')
            return None
        return time(int(match[1]), int(match[2]))

    def _whole(self, where: str, told: object, low: int, high: int) -> int:
        if isinstance(told, bool) or not isinstance(told, int) or not low <= told <= high:
            self.mistakes.append(f"{where} must be a whole number from {low} to {high}, not {told!r}.")
            return low
        return told

    def _number(self, where: str, told: object, high: float) -> float | None:
        if told is None:
            return None
        if isinstance(told, bool) or not isinstance(told, int | float) or not 0 < told <= high:
            self.mistakes.append(f"{where} must be a number above 0 and at most {high:g}, not {told!r}.")
            return None
        return float(told)

    def _names(self, where: str, told: object) -> tuple[str, ...]:
        names = told if isinstance(told, list) else [] if told is None else [told]
        if not all(isinstance(one, str) and one for one in names):
            self.mistakes.append(f"{where} must be a text or a list of texts.")
            return ()
        return tuple(names)

    def _list(self, where: str, told: object) -> list[Any]:
        if told is None:
            return []
        if not isinstance(told, list):
            self.mistakes.append(f"{where} must be a list.")
            return []
        return told

    def _mapping(self, where: str, told: object) -> dict[str, Any]:
        if told is None:
            return {}
        if not isinstance(told, dict):
            self.mistakes.append(f"{where} must be a mapping, not {told!r}.")
            return {}
        return told

    def _known(self, where: str, told: dict[Any, Any], keys: tuple[str, ...]) -> None:
        if unknown := [key for key in told if key not in keys]:
            self.mistakes.append(f"{where}: there is no key {unknown[0]!r}; there are {', '.join(keys)}.")
