"""What differs between two policies, and whether a difference lets anything happen that was not allowed before.

Decides by the guards' own arithmetic: a level is looser if in a scope of some size one more node would be let through;
a rate if some history of disruptive verbs would be; a floor if some node may leave that had to stay; a breaker rule if
some counts no longer trip it; a window if some moment is open that was not; an approval if fewer people are asked or a
request lives longer. Pure. Refuses to call a change harmless where it cannot tell: a freeze that is merely different is
one that was lifted. Refuses to weigh limits against each other: a looser one is looser even where another binds first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from datetime import datetime

from fleet.policy.breaker import TripRule
from fleet.policy.document import KINDS, WEEKDAYS, Policy, amount, span
from fleet.policy.rolecaps import USUAL
from fleet.policy.rules import FLOOR, RATE, SCOPES, CapRule
from fleet.policy.windows import FREEZE, Window

SIZES = (*range(1, 10_001), 100_000, 1_000_000, 10_000_000)
"""Sizes of scopes in which two levels or floors are compared. Percentages have two decimals, so two that differ do so
in a scope of 10,000 nodes."""


@dataclass(frozen=True, slots=True)
class Change:
    """One difference. `cluster` "" means every cluster; `old` and `new` are as the document says them, "" for nothing.

    `what` is a path of the document such as `caps.in_flight.rack`; `size` is that of a scope in which it shows.
    """

    cluster: str
    what: str
    old: str
    new: str
    loosens: bool
    size: int = 0


def compare(old: Policy, new: Policy, now: datetime) -> list[Change]:
    """Every difference, those of all clusters first. `now`: what is over by then forbids nothing any more."""
    found = []
    for cluster in ("", *sorted({*old.clusters, *new.clusters})):
        found += [*_limits(cluster, old, new), *_breaker(cluster, old, new), *_windows(cluster, old, new, now)]
    return [*found, *_approvals(old, new), *_roles(old, new)]


def loosening(old: Policy, new: Policy, now: datetime) -> list[Change]:
    """The differences that need another person's approval."""
    return [change for change in compare(old, new, now) if change.loosens]


def _limits(cluster: str, old: Policy, new: Policy) -> Iterator[Change]:
    before, after = old.limits(cluster), new.limits(cluster)
    said = (
        {*old.section(cluster).limits, *new.section(cluster).limits} if cluster else {*before, *after}
    )  # a cluster without a word of its own changes with the default
    for kind, scope in sorted(said, key=_place):
        was, now = before.get((kind, scope)), after.get((kind, scope))
        if was != now:
            size = _size(was, now)
            yield Change(cluster, f"{_part(kind)}.{scope}", _said(was), _said(now), bool(size), size)


def _place(key: tuple[str, str]) -> tuple[int, int]:
    return KINDS.index(key[0]), SCOPES.index(key[1]) if key[1] in SCOPES else len(SCOPES)


def _part(kind: str) -> str:
    return {RATE: "rates", FLOOR: "floors"}.get(kind, f"caps.{kind}")


def _said(cap: CapRule | None) -> str:
    if cap is None:
        return ""
    found = amount(cap)
    return ", ".join(f"{name} {value}" for name, value in found.items()) if isinstance(found, dict) else str(found)


def _size(old: CapRule | None, new: CapRule | None) -> int:
    """The least size of a scope in which `new` allows what `old` does not; 0 if there is none."""
    kind = (old or new or CapRule("", "", None, None)).kind
    if kind == RATE:
        return next((size for size in SIZES if _rate_looser(old, new, size)), 0)
    looser = _floor_looser if kind == FLOOR else _level_looser
    return next((size for size in SIZES if looser(old, new, size)), 0)


def _level_looser(old: CapRule | None, new: CapRule | None, size: int) -> bool:
    """A candidate meets at most size - 1 others, so no limit above the size says anything."""
    return _most(new, size) > _most(old, size)


def _most(cap: CapRule | None, size: int) -> int:
    limit = cap.limit(size) if cap else None
    return size if limit is None else min(limit, size)


def _floor_looser(old: CapRule | None, new: CapRule | None, size: int) -> bool:
    """A floor of the whole scope lets nobody leave; one above it can forbid no more."""
    return min(new.floor(size) if new else 0, size) < min(old.floor(size) if old else 0, size)


def _rate_looser(old: CapRule | None, new: CapRule | None, size: int) -> bool:
    """A shorter window forgets verbs that the longer one counted, whatever the number."""
    was, now = (old.limit(size) if old else None), (new.limit(size) if new else None)
    if old is None or was is None:
        return False
    return new is None or now is None or now > was or (new.window or 3600) < (old.window or 3600)


def _breaker(cluster: str, old: Policy, new: Policy) -> Iterator[Change]:
    if cluster and not (old.section(cluster).breaker or new.section(cluster).breaker):
        return
    was, now = old.breaker(cluster), new.breaker(cluster)
    for one in fields(TripRule):
        before, after = getattr(was, one.name), getattr(now, one.name)
        if before != after:
            looser = was.enabled and _trips_less(one.name, before, after)
            yield Change(cluster, f"breaker.{one.name}", _value(one.name, before), _value(one.name, after), looser)


def _trips_less(name: str, old: float, new: float) -> bool:
    """A longer look at remedies holds more that went well, a shorter one fewer in vain: both may keep it closed."""
    if name == "failed_window":
        return True
    return new < old if name in ("enabled", "window", "cooldown") else new > old


def _value(name: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return span(float(str(value))) if name in ("window", "failed_window", "cooldown") else f"{value:g}"


def _windows(cluster: str, old: Policy, new: Policy, now: datetime) -> Iterator[Change]:
    mine_before, mine_after = old.section(cluster).windows, new.section(cluster).windows
    before, after = old.windows(cluster), new.windows(cluster)
    for window in [one for one in mine_before if one not in mine_after]:
        lifted = window not in after and _lifted(window, after, now)
        yield Change(cluster, f"windows.{window.name}", _shown(window), "", lifted)
    contexts = [before] if cluster else [before, *(old.windows(name) for name in old.clusters)]
    for window in [one for one in mine_after if one not in mine_before]:
        opens = any(window not in context and _opens(window, context) for context in contexts)
        yield Change(cluster, f"windows.{window.name}", "", _shown(window), opens)


def _lifted(window: Window, left: Iterable[Window], now: datetime) -> bool:
    """Does taking it away allow something? An opening confines its pools as long as any opening is left for them."""
    if window.kind == FREEZE:
        over = window.ends is not None and window.ends <= now
        return not over and not any(_covers(other, window) for other in left)
    return not any(other.kind == window.kind and other.pool in ("", window.pool) for other in left)


def _opens(window: Window, before: Iterable[Window]) -> bool:
    """Does adding it allow something? The first opening of a pool confines it; another one adds moments."""
    if window.kind == FREEZE:
        return False
    meets = [one for one in before if one.kind == window.kind and (not one.pool or window.pool in ("", one.pool))]
    return bool(meets) and not any(_covers(one, window) for one in meets)


def _covers(wide: Window, narrow: Window) -> bool:
    """Is every moment of `narrow` one of `wide`, for its pools? Told only where both begin at the same wall time."""
    passes = (narrow, wide) if wide.kind == FREEZE else (wide, narrow)
    return (
        (wide.kind, wide.zone, wide.start) == (narrow.kind, narrow.zone, narrow.start)
        and wide.pool in ("", narrow.pool)
        and wide.days >= narrow.days
        and wide.minutes >= narrow.minutes
        and (wide.begins is None or (narrow.begins is not None and wide.begins <= narrow.begins))
        and (wide.ends is None or (narrow.ends is not None and wide.ends >= narrow.ends))
        and passes[0].urgent_passes >= passes[1].urgent_passes
    )


def _shown(window: Window) -> str:
    named = ", ".join(WEEKDAYS[day - 1] for day in sorted(window.days))
    days = f" on {named}" if len(window.days) < len(WEEKDAYS) else ""
    pool = f", pool {window.pool}" if window.pool else ""
    bounds = "".join(
        f", {word} {at:%Y-%m-%d %H:%M} UTC" for word, at in (("from", window.begins), ("to", window.ends)) if at
    )
    urgent = ", urgent passes" if window.urgent_passes else ""
    lasts = span(window.minutes * 60)
    return f"{window.kind} {window.start:%H:%M} {window.zone}{days} for {lasts}{pool}{bounds}{urgent}"


def _approvals(old: Policy, new: Policy) -> Iterator[Change]:
    for kind in sorted({*old.approvals, *new.approvals}):
        was, now = old.approvals.get(kind), new.approvals.get(kind)
        if was != now:
            looser = was is not None and (now is None or now[0] < was[0] or now[1] > was[1])
            yield Change("", f"approvals.{kind}", _asked(was), _asked(now), looser)


def _asked(rule: tuple[int, int] | None) -> str:
    return f"people {rule[0]}, within {span(rule[1] * 60)}" if rule else ""


def _roles(old: Policy, new: Policy) -> Iterator[Change]:
    for role in sorted({*old.roles, *new.roles}):
        was, now = (policy.roles.get(role, USUAL.get(role, 0)) for policy in (old, new))
        if old.roles.get(role) != new.roles.get(role):
            yield Change("", f"roles.{role}", str(was), str(now), now > was)
