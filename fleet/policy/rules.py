"""May this node be held, taken out, or put under a disruptive verb now?

Decides each cap in each scope by counting, and answers allowed or blocked with a reason code, a sentence with numbers
and names, and a time. Pure: no Django, no clock of its own, no I/O. Refuses to round in favour of disruption: a percent
is rounded down, with a floor of 1 so that small scopes can heal at all (a pool of three would otherwise never). A floor
of healthy capacity is a promise to a tenant and is rounded up, with no such exception.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

HOLD, TAKE_OUT, IN_FLIGHT = "hold", "take_out", "in_flight"
RATE, FLOOR = "rate", "floor"
SCOPES = ("fleet", "cluster", "tenant", "pool", "rack", "leaf", "nvlink")
APPLIES = {HOLD: (HOLD,), TAKE_OUT: (TAKE_OUT, FLOOR), IN_FLIGHT: (IN_FLIGHT, RATE)}
"""Which limits are asked for a claim of each kind: a rate counts disruptive verbs begun, a floor nodes in service."""
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
    window: float | None = None  # seconds, of a rate

    def floor(self, size: int) -> int:
        """Nodes that must stay in service in a scope of `size` nodes (kind FLOOR)."""
        return max(self.absolute or 0, math.ceil(size * (self.percent or 0) / 100))

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
    """A node and the scopes that it lies in. `serves`: work runs on it. `ready`: new work may come, as far as the node
    itself is asked. `begun`: the disruptive verb that is asked about has its claim already, so that the rates count it.
    """

    node_id: int
    name: str
    scopes: tuple[ScopeKey, ...]
    serves: bool = True
    ready: bool = True
    begun: bool = False


@dataclass(slots=True)
class Tally:
    """Who counts against each (kind, scope key): node id -> name; and how many nodes each scope has."""

    sizes: Mapping[ScopeKey, int]
    members: dict[tuple[str, ScopeKey], dict[int, str]] = field(default_factory=dict)
    clears_at: dict[tuple[str, ScopeKey], datetime] = field(default_factory=dict)
    begun: dict[ScopeKey, list[datetime]] = field(default_factory=dict)  # disruptive verbs, for the rates
    shares: dict[tuple[str, int], datetime] = field(default_factory=dict)  # (kind, node id) -> since when it has one

    def add(self, kind: str, place: Place) -> None:
        for key in place.scopes:
            self.members.setdefault((kind, key), {})[place.node_id] = place.name

    def begin(self, place: Place, at: datetime) -> None:
        """A disruptive verb was begun on the node: it counts in each rate until its window is over."""
        for key in place.scopes:
            self.begun.setdefault(key, []).append(at)

    def used(self, kind: str, key: ScopeKey, without: int | None = None) -> dict[int, str]:
        """Without the node that asks, and, where it has its share, without those that got theirs later.

        More may have one than fit by now: after a reset of the breaker, or under a cap that was lowered. If each of
        them waited for the others, none would ever go on.
        """
        found = self.members.get((kind, key), {})
        mine = self.shares.get((kind, without)) if without is not None else None
        return {
            node: name
            for node, name in found.items()
            if node != without and (mine is None or not self._after(kind, node, (mine, without or 0)))
        }

    def _after(self, kind: str, node: int, mine: tuple[datetime, int]) -> bool:
        since = self.shares.get((kind, node))
        return since is not None and (since, node) > mine


def decide(kind: str, place: Place, caps: Sequence[CapRule], tally: Tally, now: datetime) -> Decision:
    """The first cap that has no room, else allowed.

    A candidate that serves nobody costs nothing against `take_out`: old cordons cannot stop healing. Nor does one that
    is not Ready cost anything against `hold`, for it takes no new work already: a dead host has its place among those
    that are out, and if it had to wait for room among those that are held, which wait for its place, none would go on.
    Once it has its share it counts for everybody else, dead or back: nobody who could work joins it before there is
    room.
    """
    if free(kind, place):
        return ALLOWED
    for cap in caps:
        if cap.kind not in APPLIES[kind]:
            continue
        for key in place.scopes:
            if key[0] == cap.scope:
                decision = _ASK[cap.kind](cap, key, place, tally, now)
                if not decision.allowed:
                    return decision
    return ALLOWED


def free(kind: str, place: Place) -> bool:
    """Does it take nothing away that is there? Looked at again at the act, when it may be otherwise."""
    return (kind == TAKE_OUT and not place.serves) or (kind == HOLD and not place.ready)


def _cap(cap: CapRule, key: ScopeKey, place: Place, tally: Tally, now: datetime) -> Decision:
    limit = cap.limit(tally.sizes.get(key, 0))
    used = tally.used(cap.kind, key, without=place.node_id)
    if limit is None or len(used) < limit:
        return ALLOWED
    return _blocked(cap.kind, key, used, limit, tally, now)


def _rate(cap: CapRule, key: ScopeKey, place: Place, tally: Tally, now: datetime) -> Decision:
    limit, window = cap.limit(tally.sizes.get(key, 0)), timedelta(seconds=cap.window or 3600)
    recent = sorted(at for at in tally.begun.get(key, []) if at > now - window)
    if limit is None or len(recent) - place.begun < limit:
        return ALLOWED
    text = f"{where(key)}: {len(recent)} of {limit} disruptive verbs begun in the last {span(window)}."
    return Decision("rate", text, max(recent[len(recent) - limit] + window, now + MIN_WAIT))


def _floor(cap: CapRule, key: ScopeKey, place: Place, tally: Tally, now: datetime) -> Decision:
    size, least = tally.sizes.get(key, 0), cap.floor(tally.sizes.get(key, 0))
    out = tally.used(TAKE_OUT, key, without=place.node_id)
    if size - len(out) - 1 >= least:
        return ALLOWED
    text = f"{where(key)}: {size - len(out)} of {size} nodes are in service, and {least} must stay ({_names(out)} out)."
    clears = tally.clears_at.get((TAKE_OUT, key))
    return Decision("floor", text, max(clears or now, now + MIN_WAIT))


_ASK = {HOLD: _cap, TAKE_OUT: _cap, IN_FLIGHT: _cap, RATE: _rate, FLOOR: _floor}


def where(key: ScopeKey) -> str:
    """A scope as people call it."""
    return "Fleet" if key[0] == "fleet" else f"{key[0].capitalize()} {key[2]}"


def span(window: timedelta) -> str:
    seconds = window.total_seconds()
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def _names(used: Mapping[int, str]) -> str:
    names = sorted(used.values())
    more = f" and {len(names) - NAMES_TOLD} more" if len(names) > NAMES_TOLD else ""
    return (", ".join(names[:NAMES_TOLD]) or "none") + more


def _blocked(kind: str, key: ScopeKey, used: Mapping[int, str], limit: int, tally: Tally, now: datetime) -> Decision:
    text = f"{where(key)}: {len(used)} of {limit} {KIND_WORDS[kind]} ({_names(used)})."
    clears = tally.clears_at.get((kind, key))
    return Decision(f"cap_{kind}", text, max(clears or now, now + MIN_WAIT))
