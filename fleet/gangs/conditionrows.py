"""Conditions into rows: opened when they are first true, refreshed while their numbers move, ended when they are not.

Decides that a condition of which nothing can be told now (its dashboard does not answer, its window begins anew after a
start) stays open as it was, and which of it is worth a line in the gang's timeline. Refuses to find conditions, and to
write without the caller's transaction and fence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from fleet.gangs.conditions.condition import Condition
from fleet.gangs.models import GangCondition, GangMoment

ABOUT, KEY = 253, 600
REWRITE = timedelta(seconds=20)
"""Numbers that alone moved (seconds of waiting) are written so often at most."""
SEEN = timedelta(minutes=5)
"""How late it may be written that what has not changed is still true."""
Same = tuple[str, str, str]  # code, gang, about


@dataclass(slots=True)
class Open:
    """One open row. `facts` and `at` are what was written last, and when."""

    pk: int
    since: datetime
    facts: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class Changes:
    opened: Mapping[Same, Condition] = field(default_factory=dict)
    moved: Mapping[Same, Condition] = field(default_factory=dict)
    ended: tuple[Same, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.opened or self.moved or self.ended)


class ConditionLedger:
    """What is open in the rows, in memory of the one that writes them. `load` reads it after a start."""

    def __init__(self, cluster_id: int) -> None:
        self.cluster_id = cluster_id
        self.open: dict[Same, Open] = {}
        self.loaded = False

    def load(self) -> None:
        rows = GangCondition.objects.filter(cluster_id=self.cluster_id, ended_at=None)
        columns = ("pk", "code", "gang_key", "about", "since", "facts", "seen_at")
        self.open = {
            (code, key, about): Open(pk, since, facts, seen_at)
            for pk, code, key, about, since, facts, seen_at in rows.values_list(*columns)
        }
        self.loaded = True

    def compare(self, conditions: Iterable[Condition], unknown: Callable[[Same], bool], now: datetime) -> Changes:
        """What to write. `unknown` tells of an open condition that nothing could be found out about it now."""
        found = {_same(one): one for one in conditions}
        moved = {
            same: one
            for same, one in found.items()
            if (known := self.open.get(same)) is not None and _is_due(known, facts_of(one), now)
        }
        opened = {same: one for same, one in found.items() if same not in self.open}
        ended = tuple(same for same in self.open if same not in found and not unknown(same))
        return Changes(opened, moved, ended)

    def store(self, changes: Changes, now: datetime) -> dict[Same, int]:
        """The keys of the rows that were made, for `settle`."""
        if not connection.in_atomic_block:
            raise RuntimeError("conditions are written in the transaction of the fence")
        fresh = GangCondition.objects.bulk_create(
            [self._row(same, one, now, now) for same, one in changes.opened.items()], batch_size=500
        )
        again = [self._row(same, one, self.open[same].since, now) for same, one in changes.moved.items()]
        for row, same in zip(again, changes.moved, strict=True):
            row.pk = self.open[same].pk
        GangCondition.objects.bulk_update(again, ["facts", "seen_at"], batch_size=500)
        GangCondition.objects.filter(pk__in=[self.open[same].pk for same in changes.ended]).update(ended_at=now)
        self._tell(changes, now)
        return dict(zip(changes.opened, (row.pk for row in fresh), strict=True))

    def settle(self, changes: Changes, made: Mapping[Same, int], now: datetime) -> None:
        """What `store` wrote is committed."""
        for same, one in changes.opened.items():
            self.open[same] = Open(made[same], now, facts_of(one), now)
        for same, one in changes.moved.items():
            self.open[same] = Open(self.open[same].pk, self.open[same].since, facts_of(one), now)
        for same in changes.ended:
            del self.open[same]

    def _row(self, same: Same, one: Condition, since: datetime, now: datetime) -> GangCondition:
        code, gang, about = same
        return GangCondition(
            cluster_id=self.cluster_id, gang_key=gang, code=code, about=about, facts=facts_of(one), since=since,
            seen_at=now,
        )  # fmt: skip

    def _tell(self, changes: Changes, now: datetime) -> None:
        begun = [(same, {"about": same[2], **facts_of(one)}) for same, one in changes.opened.items()]
        over = [(same, {"about": same[2], "ended": True}) for same in changes.ended]
        GangMoment.objects.bulk_create(
            [
                GangMoment(cluster_id=self.cluster_id, gang_key=gang, at=now, kind="condition", what=code, facts=facts)
                for (code, gang, _), facts in [*begun, *over]
                if gang
            ],
            batch_size=500,
        )


def facts_of(one: Condition) -> dict[str, Any]:
    """As JSON gives them back: with the severity, lists for tuples."""
    told = {name: list(value) if isinstance(value, tuple) else value for name, value in one.facts}
    return {**told, "severity": one.severity}


def _same(one: Condition) -> Same:
    code, gang, about = one.same
    return code, gang[:KEY], about[:ABOUT]


def _is_due(known: Open, facts: Mapping[str, Any], now: datetime) -> bool:
    if known.facts.get("severity") != facts["severity"]:
        return True
    return now - known.at >= (REWRITE if known.facts != facts else SEEN)
