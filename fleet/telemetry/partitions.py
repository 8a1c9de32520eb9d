"""Partitions of the history tables: an hour each for samples, a day each for what is rolled up.

Decides which exist and which go: forgetting is dropping a table, whatever lies in it, so it costs the same for ten
nodes and for ten thousand. Each table has a default partition, so that no write ever fails for want of one. Refuses to
wait: a table that pages are reading now is dropped next time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db import connection, transaction
from django.db.utils import DatabaseError

PATIENCE = "500ms"
LOCK = 7_304_117
"""Advisory lock: the observers of several clusters keep the same tables."""


@dataclass(frozen=True, slots=True)
class Kept:
    table: str
    span: timedelta
    keep: timedelta
    form: str
    ahead: int = 2  # partitions made beforehand

    def start(self, at: datetime) -> datetime:
        """When the partition begins in which `at` lies."""
        whole = at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return whole if self.span < timedelta(days=1) else whole.replace(hour=0)

    def partition(self, start: datetime) -> str:
        return f"{self.table}_{start.strftime(self.form)}"


SAMPLES = Kept("telemetry_nodehistory", timedelta(hours=1), timedelta(hours=2), "%Y%m%d%H")
ROLLED = Kept("telemetry_noderollup", timedelta(days=1), timedelta(days=30), "%Y%m%d")
TABLES = (SAMPLES, ROLLED)


def prepare(now: datetime) -> int:
    """Make the partitions of now and of what comes next; how many were missing."""
    made = 0
    for kept in TABLES:
        existing = set(names(kept))
        for number in range(kept.ahead + 1):
            start = kept.start(now) + number * kept.span
            if kept.partition(start) not in existing:
                made += _try(lambda kept=kept, start=start: _make(kept, start))  # type: ignore[misc]
    return made


def forget(now: datetime, may_go: Callable[[datetime], bool] = lambda start: True) -> int:
    """Drop what is older than is kept. `may_go` is asked of each hour of samples: what is not rolled up stays a day."""
    dropped = 0
    for kept in TABLES:
        for name in names(kept):
            start = start_of(kept, name)
            if start is None or start + kept.span > now - kept.keep:
                continue
            young = start + kept.span > now - kept.keep - timedelta(days=1)
            if kept is SAMPLES and young and not may_go(start):
                continue
            dropped += _try(lambda name=name: _run(f"DROP TABLE IF EXISTS {name}"))  # type: ignore[misc]
    return dropped


def clear_default(now: datetime) -> None:
    """What was written when its partition was missing."""
    for kept in TABLES:
        with connection.cursor() as cursor:
            cursor.execute(f"DELETE FROM {kept.table}_default WHERE at < %s", [now - kept.keep])  # noqa: S608


def names(kept: Kept) -> list[str]:
    """Partitions that exist, oldest first, the default one left out."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = %s::regclass AND c.relname <> %s ORDER BY 1",
            [kept.table, f"{kept.table}_default"],
        )
        return [str(row[0]) for row in cursor.fetchall()]


def start_of(kept: Kept, name: str) -> datetime | None:
    try:
        return datetime.strptime(name.removeprefix(f"{kept.table}_"), kept.form).replace(tzinfo=UTC)
    except ValueError:
        return None


def _make(kept: Kept, start: datetime) -> None:
    low, high = start.isoformat(), (start + kept.span).isoformat()
    _run(
        f"CREATE TABLE IF NOT EXISTS {kept.partition(start)} PARTITION OF {kept.table} "
        f"FOR VALUES FROM ('{low}') TO ('{high}')"
    )


def _run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SET LOCAL lock_timeout = '{PATIENCE}'")
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        cursor.execute(statement)


def _try(work: Callable[[], None]) -> int:
    """1 when it was done; 0 when somebody was in the way, or the default partition holds rows of that time."""
    try:
        with transaction.atomic():
            work()
    except DatabaseError:
        if not connection.is_usable():
            raise
        return 0
    return 1
