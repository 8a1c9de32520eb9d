"""What all custom resources have in common: a reference, owners, conditions.

Decides how they are read without trust. Refuses to know any system.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from math import isfinite, prod
from typing import Any

from fleet.adapters.kubernetes.gang import links_of
from fleet.ports.gangs import GangObject, ReasonCode, Ref, Said, Spoken, System
from fleet.ports.shapes import MOST, items, mapping, moment, text, texts, whole

Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of one system. `versions` that can be read, the best first; discovery chooses among those served."""

    system: System
    kind: str
    group: str
    plural: str
    versions: tuple[str, ...]
    decode: Callable[[Raw], Spoken]


@dataclass(frozen=True, slots=True)
class Condition:
    status: bool | None  # None: Unknown
    reason: str
    message: str
    at: datetime | None

    def said(self, code: ReasonCode, source: str) -> Said:
        """The message, or the reason where there is none."""
        return Said(code, self.message or self.reason, self.at, source)


def ref_of(system: System, kind: str, raw: Raw) -> Ref:
    meta = mapping(raw.get("metadata"))
    return Ref(system, kind, text(meta.get("namespace")), text(meta.get("name")), text(meta.get("uid")))


def spoken_key(ref: Ref) -> str:
    """How the watch names the resource: `namespace/name`."""
    return f"{ref.namespace}/{ref.name}"


def spoken(raw: Raw, one: GangObject) -> Spoken:
    """Of a resource that speaks of one gang: with the owners and the birth that every resource tells alike."""
    return Spoken(spoken_key(one.ref), (replace(one, owners=owners_of(raw), created_at=created_at(raw)),))


def owners_of(raw: Raw) -> tuple[str, ...]:
    return tuple(uid for e in items(mapping(raw.get("metadata")).get("ownerReferences")) if (uid := text(e.get("uid"))))


def links_in(ref: Ref, raw: Raw) -> tuple[str, ...]:
    """What the object names by the labels and annotations that pods have too: the set and replica it belongs to."""
    meta = mapping(raw.get("metadata"))
    links = links_of(ref.namespace, texts(meta.get("labels")), texts(meta.get("annotations")), {})
    return tuple(link for link in links if link != ref.key)


def created_at(raw: Raw) -> datetime | None:
    return moment(mapping(raw.get("metadata")).get("creationTimestamp"))


def conditions_of(raw: Raw) -> dict[str, Condition]:
    """By type; of several of one type the last counts."""
    return {
        text(c.get("type")): Condition(
            {"True": True, "False": False}.get(text(c.get("status"))),
            text(c.get("reason")),
            text(c.get("message")),
            moment(c.get("lastTransitionTime")),
        )
        for c in items(mapping(raw.get("status")).get("conditions"))
    }


def resumed_at(condition: Condition | None) -> datetime | None:
    """When a suspension ended, told by its condition: a new wait began then."""
    return condition.at if condition is not None and condition.status is False else None


def latest(*moments: datetime | None) -> datetime | None:
    return max((at for at in moments if at is not None), default=None)


def times(*counts: int) -> int:
    """A product of counts, within what any count may be (`fleet.ports.shapes.MOST`)."""
    return min(MOST, prod(max(0, count) for count in counts))


def figure(value: Any) -> float | None:
    """A finite number that need not be whole; None for what is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if isfinite(value) else None
    except OverflowError:
        return None


def number(value: Any) -> int | None:
    """A count, None where there is none: what is not told differs from 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    found = whole(value, MOST + 1)  # no number and infinity are none
    return None if found > MOST else found
