"""The whole policy as one document: every limit, breaker rule, window, approval rule and role cap of an installation.

Decides what a policy is made of, what holds in a cluster (its own limit replaces the default of the same kind and
scope, its own breaker rule replaces the default rule, its windows are added to those of all), and the one text that a
policy is written as. Pure. Refuses to read files or tables: `document_file` and `versions` do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import yaml

from fleet.policy.breaker import TripRule
from fleet.policy.rules import FLOOR, HOLD, IN_FLIGHT, RATE, SCOPES, TAKE_OUT, CapRule
from fleet.policy.windows import Window

VERSION = 1
LEVELS = (HOLD, TAKE_OUT, IN_FLIGHT)
KINDS = (*LEVELS, RATE, FLOOR)
WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
BREAKER_TIMES = ("window", "failed_window", "cooldown")
LimitKey = tuple[str, str]  # (kind, scope)


@dataclass(frozen=True, slots=True)
class Section:
    """What is said for one cluster, or for all of them. `breaker` None: nothing is said of it here."""

    limits: Mapping[LimitKey, CapRule] = field(default_factory=dict)
    breaker: TripRule | None = None
    windows: tuple[Window, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.limits or self.breaker or self.windows)


@dataclass(frozen=True, slots=True)
class Policy:
    """`approvals`: kind -> (people beside the requester, minutes); `roles`: role -> nodes that one action may touch."""

    default: Section = field(default_factory=Section)
    clusters: Mapping[str, Section] = field(default_factory=dict)
    approvals: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    roles: Mapping[str, int] = field(default_factory=dict)

    def section(self, cluster: str) -> Section:
        """What is said for `cluster` itself ("" for all of them)."""
        return self.clusters.get(cluster, Section()) if cluster else self.default

    def limits(self, cluster: str) -> dict[LimitKey, CapRule]:
        """What holds in `cluster`."""
        return {**self.default.limits, **self.section(cluster).limits}

    def caps(self, cluster: str) -> list[CapRule]:
        """What holds in `cluster`, in the order in which guards ask: the narrowest scope first."""
        return in_order(self.limits(cluster).values())

    def breaker(self, cluster: str) -> TripRule:
        return self.section(cluster).breaker or self.default.breaker or TripRule()

    def windows(self, cluster: str) -> tuple[Window, ...]:
        return self.default.windows + (self.section(cluster).windows if cluster else ())


def in_order(caps: Iterable[CapRule]) -> list[CapRule]:
    return sorted(caps, key=lambda cap: SCOPES.index(cap.scope) if cap.scope in SCOPES else 99, reverse=True)


def limits_of(caps: Iterable[CapRule]) -> dict[LimitKey, CapRule]:
    """In the order of kinds and scopes, so that equal policies are equal texts."""
    found = {(cap.kind, cap.scope): cap for cap in caps}
    places = {(kind, scope): n for n, (kind, scope) in enumerate((k, s) for k in KINDS for s in SCOPES)}
    return dict(sorted(found.items(), key=lambda item: (places.get(item[0], 999), item[0])))


def text_of(policy: Policy) -> str:
    """The policy as YAML that `document_file.parse` reads back to an equal one."""
    return yaml.safe_dump(
        data_of(policy), sort_keys=False, default_flow_style=None, allow_unicode=True, width=100, indent=2
    )


def data_of(policy: Policy) -> dict[str, Any]:
    data: dict[str, Any] = {"version": VERSION, "default": _section(policy.default)}
    named = {name: _section(section) for name, section in sorted(policy.clusters.items()) if section}
    if named:
        data["clusters"] = named
    if policy.approvals:
        data["approvals"] = {
            kind: {"people": needed, "within": span(minutes * 60)}
            for kind, (needed, minutes) in sorted(policy.approvals.items())
        }
    if policy.roles:
        data["roles"] = dict(sorted(policy.roles.items()))
    return data


def _section(section: Section) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for (kind, scope), cap in section.limits.items():
        if kind in LEVELS:
            data.setdefault("caps", {}).setdefault(kind, {})[scope] = amount(cap)
        else:
            data.setdefault("rates" if kind == RATE else "floors", {})[scope] = amount(cap)
    if section.breaker is not None:
        data["breaker"] = {
            one.name: span(value) if one.name in BREAKER_TIMES else value
            for one in fields(TripRule)
            for value in [getattr(section.breaker, one.name)]
        }
    if section.windows:
        data["windows"] = [_window(window) for window in section.windows]
    return data


def amount(cap: CapRule) -> Any:
    """A limit as the document says it: `2`, `5%`, `{nodes: 2, percent: 5}`, `{verbs: 20, within: 1h}` or `none`."""
    percent = cap.percent if cap.percent is None or cap.percent != int(cap.percent) else int(cap.percent)
    if cap.absolute is None and percent is None:
        return "none"
    if cap.kind == RATE:
        parts = {"verbs": cap.absolute, "percent": percent, "within": span(cap.window or 3600)}
        return {name: value for name, value in parts.items() if value is not None}
    if percent is None:
        return cap.absolute
    return f"{percent}%" if cap.absolute is None else {"nodes": cap.absolute, "percent": percent}


def span(seconds: float) -> str:
    """`90s`, `15m`, `4h`, `2d`: the largest unit that says it whole."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"


def _window(window: Window) -> dict[str, Any]:
    data: dict[str, Any] = {
        "kind": window.kind,
        "name": window.name,
        "zone": window.zone,
        "days": [WEEKDAYS[day - 1] for day in sorted(window.days)],
        "start": window.start.isoformat("minutes"),
        "lasts": span(window.minutes * 60),
    }
    if len(window.days) == len(WEEKDAYS):
        del data["days"]
    optional = {"pool": window.pool, "begins": _moment(window.begins), "ends": _moment(window.ends)}
    data.update({name: value for name, value in optional.items() if value})
    return {**data, "urgent_passes": True} if window.urgent_passes else data


def _moment(at: datetime | None) -> str:
    return at.astimezone(UTC).isoformat() if at else ""
