"""May this node be held, taken out, or put under a disruptive verb now?

Decides each cap in each scope by counting, and answers allowed or blocked with a reason code, a sentence with numbers
and names, and a time. Pure: no Django, no clock of its own, no I/O. Refuses to round in favour of disruption: a percent
is rounded down, with a floor of 1 so that small scopes can heal at all (a pool of three would otherwise never).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

HOLD, TAKE_OUT, IN_FLIGHT = "hold", "take_out", "in_flight"
SCOPES = ("fleet", "cluster", "pool", "rack", "leaf", "nvlink")
KIND_WORDS = {HOLD: "held", TAKE_OUT: "out of service", IN_FLIGHT: "in flight"}
MIN_WAIT = timedelta(seconds=30)
NAMES_TOLD = 3

ScopeKey = tuple[str, str, str]  # (scope, cluster, key), e.g. ("rack", "seoul-1", "r07")
FLEET: ScopeKey = ("fleet", "", "")


@dataclass(frozen=True, slots=True)
class Decision:
    """`code` is "" when allowed."""

    code: str = ""
    text: str = ""
    until: datetime | None = None

    @property
    def allowed(self) -> bool:
        return not self.code


ALLOWED = Decision()


@dataclass(frozen=True, slots=True)
class CapRule:
    kind: str
    scope: str
    absolute: int | None
    percent: float | None

    def limit(self, size: int) -> int | None:
        """Nodes allowed in a scope of `size` nodes; None without a limit; never below 1."""
        limits = []
        if self.absolute is not None:
            limits.append(self.absolute)
        if self.percent is not None:
            limits.append(math.floor(size * self.percent / 100))
        return max(1, min(limits)) if limits else None


@dataclass(frozen=True, slots=True)
class Place:
    """A node and the scopes that it lies in. `serves`: work runs on it, or new work may come."""

    node_id: int
    name: str
    scopes: tuple[ScopeKey, ...]
    serves: bool = True


@dataclass(slots=True)
class Tally:
    """Who counts against each (kind, scope key): node id -> name; and how many nodes each scope has."""

    sizes: Mapping[ScopeKey, int]
    members: dict[tuple[str, ScopeKey], dict[int, str]] = field(default_factory=dict)
    clears_at: dict[tuple[str, ScopeKey], datetime] = field(default_factory=dict)

    def add(self, kind: str, place: Place) -> None:
        for key in place.scopes:
            self.members.setdefault((kind, key), {})[place.node_id] = place.name

    def used(self, kind: str, key: ScopeKey, without: int | None = None) -> dict[int, str]:
        found = self.members.get((kind, key), {})
        return {node: name for node, name in found.items() if node != without}


def decide(kind: str, place: Place, caps: Sequence[CapRule], tally: Tally, now: datetime) -> Decision:
    """The first cap that has no room, else allowed.

    A candidate that serves nobody costs nothing against `take_out`: old cordons cannot stop healing.
    """
    if kind == TAKE_OUT and not place.serves:
        return ALLOWED
    for cap in caps:
        if cap.kind != kind:
            continue
        for key in place.scopes:
            if key[0] != cap.scope:
                continue
            limit = cap.limit(tally.sizes.get(key, 0))
            used = tally.used(kind, key, without=place.node_id)
            if limit is not None and len(used) >= limit:
                return _blocked(kind, key, used, limit, tally, now)
    return ALLOWED


def _blocked(kind: str, key: ScopeKey, used: Mapping[int, str], limit: int, tally: Tally, now: datetime) -> Decision:
    names = sorted(used.values())
    told = ", ".join(names[:NAMES_TOLD]) + (f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else "")
    where = "Fleet" if key[0] == "fleet" else f"{key[0].capitalize()} {key[2]}"
    text = f"{where}: {len(used)} of {limit} {KIND_WORDS[kind]} ({told})."
    clears = tally.clears_at.get((kind, key))
    return Decision(f"cap_{kind}", text, max(clears or now, now + MIN_WAIT))
