"""Gangs, queues and their timeline into rows: only what changed, a few statements for all of it.

Decides that a gang which is gone keeps its row until retention takes it, that held-idle time is added up by what was
true since the last write, and what of a change is worth a line in the timeline. Refuses to write without the caller's
transaction and fence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import connection

from fleet.gangs.models import GangMoment, GangRow, QueueRow

KEEP = timedelta(days=30)
"""Of gangs that are gone, their timelines and ended conditions."""
MINUTES_KEPT = timedelta(days=90)
ENDINGS_KEPT = timedelta(days=180)
LOOKED_AWAY = timedelta(minutes=5)
"""After a longer gap only what was held idle at both of its ends counts: nobody knows what was true between."""
KNOWN = ("state", "reason_code", "gpus_held_idle")  # what a start remembers of a gang
Columns = Mapping[str, Any]


@dataclass(slots=True)
class Ledger:
    """What is in the rows already, in memory of the one that writes them. `load` reads it after a start."""

    cluster_id: int
    gangs: dict[str, Columns] = field(default_factory=dict)
    queues: dict[str, Columns] = field(default_factory=dict)
    idle: dict[str, tuple[datetime | None, float, datetime]] = field(default_factory=dict)  # since, seconds, counted at
    loaded: bool = False

    def load(self) -> None:
        """States and idle sums only: after a start every row is compared by its state and written once."""
        rows = GangRow.objects.filter(cluster_id=self.cluster_id, gone_at=None)
        names = ("key", *KNOWN, "idle_since", "idle_seconds", "counted_at", "changed_at")
        for row in rows.values(*names):
            self.gangs[row["key"]] = {name: row[name] for name in KNOWN}
            counted = row["counted_at"] or row["changed_at"]
            self.idle[row["key"]] = row["idle_since"], row["idle_seconds"], counted
        self.queues = {key: {} for key in self._queue_keys()}
        self.loaded = True

    def _queue_keys(self) -> list[str]:
        return list(QueueRow.objects.filter(cluster_id=self.cluster_id).values_list("key", flat=True))


def store(ledger: Ledger, gangs: Mapping[str, Columns], queues: Mapping[str, Columns], now: datetime) -> int:
    """Write what differs from the ledger; how many rows. The ledger is changed by `settle` after the commit."""
    if not connection.in_atomic_block:
        raise RuntimeError("gangs are written in the transaction of the fence")
    changed = {key: columns for key, columns in gangs.items() if ledger.gangs.get(key) != columns}
    gone = [key for key in ledger.gangs if key not in gangs]
    idle = _idle(ledger, gangs, now)
    _write_gangs(ledger, changed, idle, now)
    GangRow.objects.filter(cluster_id=ledger.cluster_id, key__in=gone, gone_at=None).update(
        gone_at=now, changed_at=now, gpus_held=0, gpus_held_idle=0, idle_since=None
    )
    _write_moments(ledger, changed, gone, now)
    fresh = {key: columns for key, columns in queues.items() if ledger.queues.get(key) != columns}
    _write_queues(ledger, fresh, now)
    QueueRow.objects.filter(
        cluster_id=ledger.cluster_id, key__in=[key for key in ledger.queues if key not in queues]
    ).delete()
    return len(changed) + len(gone) + len(fresh)


def settle(ledger: Ledger, gangs: Mapping[str, Columns], queues: Mapping[str, Columns], now: datetime) -> None:
    """What `store` wrote is committed."""
    ledger.idle = _idle(ledger, gangs, now)
    ledger.gangs, ledger.queues = dict(gangs), dict(queues)


def _idle(
    ledger: Ledger, gangs: Mapping[str, Columns], now: datetime
) -> dict[str, tuple[datetime | None, float, datetime]]:
    """Each gang's idle time up to now: what it held idle since the last look counts for the time between."""
    found: dict[str, tuple[datetime | None, float, datetime]] = {}
    for key, columns in gangs.items():
        since, seconds, counted = ledger.idle.get(key, (None, 0.0, now))
        held_before = ledger.gangs.get(key, {}).get("gpus_held_idle", 0)
        holds = columns["gpus_held_idle"]
        gap = max(timedelta(0), now - counted)
        held = held_before if gap <= LOOKED_AWAY else min(held_before, holds)
        found[key] = (since or now) if holds else None, seconds + held * gap.total_seconds(), now
    return found


def _write_gangs(
    ledger: Ledger,
    changed: Mapping[str, Columns],
    idle: Mapping[str, tuple[datetime | None, float, datetime]],
    now: datetime,
) -> None:
    if not changed:
        return
    names = [*next(iter(changed.values())), "idle_since", "idle_seconds", "counted_at", "changed_at", "gone_at"]
    GangRow.objects.bulk_create(
        [
            GangRow(
                cluster_id=ledger.cluster_id,
                key=key[:600],
                first_seen_at=now,
                changed_at=now,
                gone_at=None,
                idle_since=idle[key][0],
                idle_seconds=idle[key][1],
                counted_at=now,
                **columns,
            )
            for key, columns in changed.items()
        ],
        batch_size=500,
        update_conflicts=True,
        unique_fields=["cluster", "key"],
        update_fields=names,
    )


def _write_queues(ledger: Ledger, fresh: Mapping[str, Columns], now: datetime) -> None:
    if fresh:
        QueueRow.objects.bulk_create(
            [
                QueueRow(cluster_id=ledger.cluster_id, key=key[:600], changed_at=now, **columns)
                for key, columns in fresh.items()
            ],
            batch_size=500,
            update_conflicts=True,
            unique_fields=["cluster", "key"],
            update_fields=[*next(iter(fresh.values())), "changed_at"],
        )


def _write_moments(ledger: Ledger, changed: Mapping[str, Columns], gone: list[str], now: datetime) -> None:
    lines = [GangMoment(cluster_id=ledger.cluster_id, gang_key=key, at=now, kind="gone", what="gone") for key in gone]
    for key, columns in changed.items():
        before = ledger.gangs.get(key, {})
        for kind, name in (("state", "state"), ("reason", "reason_code")):
            if columns[name] and before.get(name) != columns[name]:
                facts = _facts(kind, columns)
                lines.append(
                    GangMoment(
                        cluster_id=ledger.cluster_id, gang_key=key, at=now, kind=kind, what=columns[name], facts=facts
                    )
                )
    GangMoment.objects.bulk_create(lines, batch_size=1000)


def _facts(kind: str, columns: Columns) -> dict[str, Any]:
    if kind == "state":
        return {name: columns[name] for name in ("placed", "minimum", "wanted", "gpus_held")}
    return {"raw": columns["reason"].get("raw", ""), "nodes": [one["node"] for one in columns["blockers"]]}
