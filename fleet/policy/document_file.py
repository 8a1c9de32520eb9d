"""A policy as a file: versioned YAML (JSON is YAML too), read whole or not at all.

    version: 1
    default:
      caps:
        hold: {fleet: 20%}
        in_flight: {fleet: 5%, rack: 2, leaf: {nodes: 3, percent: 25}}
      rates: {fleet: {verbs: 20, within: 1h}}
      floors: {tenant: 80%}
      breaker: {percent: 25, least: 20, window: 10m}
      windows:
        - {kind: freeze, name: quarter end, zone: Asia/Seoul, days: [mon], start: "02:00", lasts: 4h, pool: h100}
    clusters:
      seoul-1:
        caps: {in_flight: {rack: none}}
    approvals: {reprovision: {people: 2, within: 1h}}
    roles: {operator: 10}

Decides what the file says and, of each mistake, the line, the place and what is allowed; all of them at once. Refuses
unknown names, clusters that are not registered, numbers that would be read as others, and doubled keys: a limit that
was mistyped must not be a limit that is missing. Pure: the caller reads the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

import yaml

from fleet.policy import approvals
from fleet.policy.breaker import TripRule
from fleet.policy.document import BREAKER_TIMES, LEVELS, VERSION, WEEKDAYS, LimitKey, Policy, Section, limits_of
from fleet.policy.rules import FLOOR, RATE, SCOPES, CapRule
from fleet.policy.windows import FREEZE, OPENING, Window
from fleet.ports import plainyaml

MAX_CHARS = 1_000_000
MOST_NODES = 10_000_000
MOST_MINUTES = 30 * 24 * 60
_TOP = ("version", "default", "clusters", "approvals", "roles")
_PARTS = ("caps", "rates", "floors", "breaker", "windows")
_WINDOW = ("kind", "name", "zone", "days", "start", "lasts", "pool", "begins", "ends", "urgent_passes")
_TIME = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(s|m|h|d)")
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,2})?) ?%")
_AMOUNT = "a number of nodes from 1, a percentage such as 5%, {nodes: 2, percent: 5}, or none"
_RATE = "{verbs: 20, within: 1h}, {percent: 5, within: 1h}, or none"
Path = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    line: int
    text: str


class BadPolicy(Exception):
    """The file cannot be used. `mistakes` are in the order of its lines."""

    def __init__(self, name: str, mistakes: list[Mistake]) -> None:
        self.name, self.mistakes = name, sorted(mistakes, key=lambda mistake: mistake.line)
        super().__init__("\n".join(f"{name}:{mistake.line}: {mistake.text}" for mistake in self.mistakes))


def parse(text: str, name: str, clusters: Collection[str], roles: Collection[str]) -> Policy:
    """The policy that a file of that name holds; `clusters` and `roles` are those that exist. Raises BadPolicy."""
    reader = _Reader(clusters, roles)
    found = reader.read(text)
    if reader.mistakes:
        raise BadPolicy(name, reader.mistakes)
    return found


def seconds(value: object) -> float | None:
    """Of `90s`, `15m`, `4h`, `1d`; None for anything else and for what is not above zero."""
    match = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    return float(match[1]) * _UNITS[match[2]] or None if match else None


class _Reader:
    def __init__(self, clusters: Collection[str], roles: Collection[str]) -> None:
        self.mistakes: list[Mistake] = []
        self.lines: Mapping[Path, int] = {}
        self.clusters, self.roles = clusters, roles

    def read(self, text: str) -> Policy:
        try:
            if len(text) > MAX_CHARS:
                raise yaml.YAMLError("the file is too long")
            data = plainyaml.load(text, keys_once=True)
            self.lines = plainyaml.lines(text)
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            said = getattr(error, "problem", None) or str(error)
            self.mistakes.append(Mistake(mark.line + 1 if mark else 1, f"This is no YAML: {said}."))
            return Policy()
        if not isinstance(data, dict) or data.get("version") != VERSION or isinstance(data["version"], bool):
            self._say((), f"The file must hold `version: {VERSION}` and {', '.join(_TOP[1:])}.")
            return Policy()
        self._known((), data, _TOP)
        named = self._mapping(("clusters",), data.get("clusters"))
        for cluster in [name for name in named if name not in self.clusters]:
            known = ", ".join(sorted(self.clusters)) or "none"
            self._say(("clusters", cluster), f"No cluster {cluster!r} is registered; there are {known}.")
        return Policy(
            self._section(("default",), data.get("default")),
            {str(name): self._section(("clusters", name), part) for name, part in named.items()},
            self._approvals(data.get("approvals")),
            self._roles(data.get("roles")),
        )

    def _say(self, path: Path, text: str) -> None:
        while path and path not in self.lines:
            path = path[:-1]
        self.mistakes.append(Mistake(self.lines.get(path, 1), text))

    def _mapping(self, path: Path, value: object) -> dict[Any, Any]:
        if value is None:
            return {}
        if isinstance(value, dict):
            return value
        self._say(path, f"{_told(path)} must be a mapping.")
        return {}

    def _known(self, path: Path, found: Mapping[Any, Any], allowed: Collection[str]) -> None:
        for key in found:
            if key not in allowed:
                self._say((*path, key), f"There is no {key!r} in {_told(path)}; there are {', '.join(allowed)}.")

    def _section(self, path: Path, value: object) -> Section:
        data = self._mapping(path, value)
        self._known(path, data, _PARTS)
        caps = self._mapping((*path, "caps"), data.get("caps"))
        self._known((*path, "caps"), caps, LEVELS)
        limits: dict[LimitKey, CapRule] = {}
        for kind in LEVELS:
            self._limits((*path, "caps", kind), kind, caps.get(kind), limits)
        self._limits((*path, "rates"), RATE, data.get("rates"), limits)
        self._limits((*path, "floors"), FLOOR, data.get("floors"), limits)
        breaker = self._breaker((*path, "breaker"), data["breaker"]) if "breaker" in data else None
        return Section(limits_of(limits.values()), breaker, self._windows((*path, "windows"), data.get("windows")))

    def _limits(self, path: Path, kind: str, value: object, into: dict[LimitKey, CapRule]) -> None:
        data = self._mapping(path, value)
        self._known(path, data, SCOPES)
        for scope, said in data.items():
            if scope in SCOPES:
                cap = _rate(scope, said) if kind == RATE else _amount(kind, scope, said)
                if cap is None:
                    allowed = _RATE if kind == RATE else _AMOUNT
                    self._say((*path, scope), f"{_told((*path, scope))} cannot be {said!r}; it is {allowed}.")
                else:
                    into[kind, scope] = cap

    def _breaker(self, path: Path, value: object) -> TripRule:
        data = self._mapping(path, value)
        usual = {one.name: getattr(TripRule(), one.name) for one in fields(TripRule)}
        self._known(path, data, tuple(usual))
        good: dict[str, Any] = {}
        for name in usual.keys() & data.keys():
            read = _breaker_value(name, data[name])
            if read is None:
                allowed = _BREAKER.get(name, "a number from 1 to 100")
                self._say((*path, name), f"{_told((*path, name))} cannot be {data[name]!r}; it is {allowed}.")
            else:
                good[name] = read
        return TripRule(**{**usual, **good})

    def _windows(self, path: Path, value: object) -> tuple[Window, ...]:
        if value is not None and not isinstance(value, list):
            self._say(path, f"{_told(path)} must be a list.")
        found: list[Window] = []
        for number, item in enumerate(value if isinstance(value, list) else ()):
            window = self._window((*path, number), item)
            if window is not None and window.name in {other.name for other in found}:
                self._say((*path, number), f"There are two windows named {window.name!r} here.")
            elif window is not None:
                found.append(window)
        return tuple(found)

    def _window(self, path: Path, item: object) -> Window | None:
        before = len(self.mistakes)
        data = self._mapping(path, item)
        self._known(path, data, _WINDOW)
        zone = data.get("zone")
        checks: list[tuple[str, Any, str]] = [
            ("kind", _one_of(data.get("kind"), (FREEZE, OPENING)), f"{FREEZE} or {OPENING}"),
            ("name", _line(data.get("name")), "a text on one line of at most 100 characters"),
            ("zone", _line(zone, 64), "a time zone such as Asia/Seoul"),
            ("days", _days(data.get("days", list(WEEKDAYS))), f"a list out of {', '.join(WEEKDAYS)}"),
            ("start", _clock(data.get("start")), 'a time such as "02:00"'),
            ("lasts", seconds(data.get("lasts")), "a time such as 90m or 4h"),
            ("pool", _line(data.get("pool", ""), 100, empty=True), "the name of a pool"),
            ("urgent_passes", _one_of(data.get("urgent_passes", False), (False, True)), "true or false"),
        ]
        for name, read, allowed in checks:
            if read is None:
                self._say((*path, name), f"{_told((*path, name))} cannot be {data.get(name)!r}; it is {allowed}.")
        if len(self.mistakes) > before:
            return None
        good = {name: read for name, read, _ in checks}
        window = Window(
            good["kind"], good["name"], good["zone"], good["days"], good["start"], math.ceil(good["lasts"] / 60),
            good["pool"], urgent_passes=good["urgent_passes"],
        )  # fmt: skip
        problem = window.problem()
        if problem:
            self._say(path, f"{_told(path)}: {problem}")
            return None
        return self._bounded(path, window, data)

    def _bounded(self, path: Path, window: Window, data: Mapping[str, Any]) -> Window | None:
        """With `begins` and `ends`; a time without a zone is one in the window's own."""
        zone, moments = ZoneInfo(window.zone), {}
        for name in ("begins", "ends"):
            moments[name] = _moment(data[name], zone) if data.get(name) is not None else None
            if data.get(name) is not None and moments[name] is None:
                self._say((*path, name), f"{_told((*path, name))} must be a time such as 2026-12-24T18:00.")
                return None
        begins, ends = moments["begins"], moments["ends"]
        if begins and ends and ends <= begins:
            self._say((*path, "ends"), f"{_told(path)}: It ends before it begins.")
            return None
        return Window(
            window.kind, window.name, window.zone, window.days, window.start, window.minutes, window.pool, begins, ends,
            window.urgent_passes,
        )  # fmt: skip

    def _approvals(self, value: object) -> dict[str, tuple[int, int]]:
        found = dict(approvals.KINDS)
        data = self._mapping(("approvals",), value)
        self._known(("approvals",), data, tuple(found))
        for kind in found.keys() & data.keys():
            path = ("approvals", kind)
            said = self._mapping(path, data[kind])
            self._known(path, said, ("people", "within"))
            people, within = _whole(said.get("people", found[kind][0]), 0, 20), seconds(said.get("within", "1d"))
            minutes = found[kind][1] if "within" not in said else math.ceil(within / 60) if within else None
            if people is None or minutes is None or minutes > MOST_MINUTES:
                self._say(path, f"{_told(path)} is like {{people: 1, within: 1h}}: 0 to 20 people, at most 30 days.")
            else:
                found[kind] = people, minutes
        return found

    def _roles(self, value: object) -> dict[str, int]:
        data = self._mapping(("roles",), value)
        self._known(("roles",), data, tuple(self.roles))
        found = {role: _whole(nodes, 0, MOST_NODES) for role, nodes in data.items() if role in self.roles}
        for role, nodes in found.items():
            if nodes is None:
                self._say(("roles", role), f"roles.{role} cannot be {data[role]!r}; it is a number of nodes.")
        return {role: nodes for role, nodes in found.items() if nodes is not None}


_BREAKER = {
    "enabled": "true or false",
    "least": "a number of nodes from 1",
    "failed": "a number of remedies from 1",
    **dict.fromkeys(BREAKER_TIMES, "a time such as 90s, 10m or 1h"),
}


def _breaker_value(name: str, value: object) -> Any:
    if name == "enabled":
        return _one_of(value, (False, True))
    if name in BREAKER_TIMES:
        return seconds(value)
    if name in ("least", "failed"):
        return _whole(value, 1, MOST_NODES)
    return _percent(value)


def _amount(kind: str, scope: str, value: object) -> CapRule | None:
    if value == "none":
        return CapRule(kind, scope, None, None)
    if isinstance(value, dict):
        absolute, percent = _whole(value.get("nodes"), 1, MOST_NODES), _percent(value.get("percent"))
        whole = set(value) == {"nodes", "percent"} and absolute is not None and percent is not None
        return CapRule(kind, scope, absolute, percent) if whole else None
    if isinstance(value, str):
        percent = _percent(value)
        return None if percent is None else CapRule(kind, scope, None, percent)
    absolute = _whole(value, 1, MOST_NODES)
    return None if absolute is None else CapRule(kind, scope, absolute, None)


def _rate(scope: str, value: object) -> CapRule | None:
    if value == "none":
        return CapRule(RATE, scope, None, None)
    if not isinstance(value, dict) or "within" not in value or not set(value) <= {"verbs", "percent", "within"}:
        return None
    absolute = _whole(value.get("verbs"), 1, MOST_NODES)
    percent, window = _percent(value.get("percent")), seconds(value["within"])
    bad = ("verbs" in value and absolute is None) or ("percent" in value and percent is None)
    if bad or window is None or len(value) < 2:
        return None
    return CapRule(RATE, scope, absolute, percent, window)


def _whole(value: object, least: int, most: int) -> int | None:
    good = isinstance(value, int) and not isinstance(value, bool) and least <= value <= most
    return value if good else None  # type: ignore[return-value]


def _percent(value: object) -> float | None:
    """`5%`, or 5 where only a percentage can stand: above 0, to 100, two decimals at most."""
    if isinstance(value, str):
        match = _PERCENT.fullmatch(value.strip())
        value = float(match[1]) if match else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 100:
        return None
    return float(value) if round(value, 2) == value else None


def _one_of(value: object, allowed: tuple[Any, ...]) -> Any:
    return next((one for one in allowed if type(value) is type(one) and value == one), None)


def _line(value: object, most: int = 100, *, empty: bool = False) -> str | None:
    good = isinstance(value, str) and value.isprintable() and len(value) <= most and (empty or value.strip())
    return str(value) if good else None


def _days(value: object) -> frozenset[int] | None:
    if not isinstance(value, list) or not value or not all(one in WEEKDAYS for one in value if isinstance(one, str)):
        return None
    return frozenset(WEEKDAYS.index(one) + 1 for one in value) if all(isinstance(one, str) for one in value) else None


def _clock(value: object) -> time | None:
    """YAML 1.1 reads an unquoted 22:30 as the number 1350."""
    if isinstance(value, int) and not isinstance(value, bool) and 60 <= value < 24 * 60:
        return time(value // 60, value % 60)
    match = re.fullmatch(r"([01]?\d|2[0-3]):([0-5]\d)", value) if isinstance(value, str) else None
    return time(int(match[1]), int(match[2])) if match else None


def _moment(value: object, zone: ZoneInfo) -> datetime | None:
    try:
        at = datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(at, date) and not isinstance(at, datetime):
            at = datetime.combine(at, time())
        if not isinstance(at, datetime):
            return None
        return (at if at.tzinfo else at.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def _told(path: Path) -> str:
    return ".".join(str(part + 1) if isinstance(part, int) else str(part) for part in path) or "the file"
