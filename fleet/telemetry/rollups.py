"""Rolling finished hours up, and forgetting.

Decides from the tables alone what is still to be rolled up, so a restart loses nothing and a second run does nothing.
Refuses to hold a transaction over a whole fleet: some hundred nodes at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from django.db import connection, transaction

from fleet.telemetry import partitions
from fleet.telemetry.rolling import HOUR, roll

LATE = timedelta(minutes=2)  # how long the last minute of an hour may take to be written
BACK = timedelta(hours=26)
AT_ONCE = 250
_MISSING = """SELECT DISTINCT h.node_id FROM telemetry_nodehistory h
 WHERE h.cluster_id = %s AND h.at >= %s AND h.at < %s
   AND NOT EXISTS (SELECT 1 FROM telemetry_noderollup r WHERE r.node_id = h.node_id AND r.at = %s)"""


def keep(cluster_id: int, now: datetime, stop: Callable[[], bool] = lambda: False) -> int:
    """Everything that retention is: partitions, roll-ups, forgetting. How many node hours were rolled up."""
    partitions.prepare(now)
    rolled = 0
    hour = (now - LATE).replace(minute=0, second=0, microsecond=0) - HOUR
    for start in [start for start in _hours() if now - BACK <= start <= hour]:
        rolled += roll_hour(cluster_id, start, stop)
        if stop():
            return rolled
    partitions.forget(now, is_rolled)
    partitions.clear_default(now)
    return rolled


def _hours() -> list[datetime]:
    """Hours of which there are samples, oldest first. What lies in the default partition counts too."""
    kept = partitions.SAMPLES
    found = {start for name in partitions.names(kept) if (start := partitions.start_of(kept, name)) is not None}
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT date_trunc('hour', at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'"
                       " FROM telemetry_nodehistory_default")  # fmt: skip
        found |= {row[0] for row in cursor.fetchall()}
    return sorted(found)


def roll_hour(cluster_id: int, hour: datetime, stop: Callable[[], bool] = lambda: False) -> int:
    """Roll up the nodes of one hour that are not yet."""
    with connection.cursor() as cursor:
        cursor.execute(_MISSING, [cluster_id, hour, hour + HOUR, hour])
        missing = [int(row[0]) for row in cursor.fetchall()]
    done = 0
    for at in range(0, len(missing), AT_ONCE):
        if stop():
            break
        done += _roll(cluster_id, hour, missing[at : at + AT_ONCE])
    return done


@transaction.atomic
def _roll(cluster_id: int, hour: datetime, node_ids: list[int]) -> int:
    minutes: dict[int, list[bytes]] = {}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT node_id, data FROM telemetry_nodehistory WHERE node_id = ANY(%s) AND at >= %s AND at < %s"
            " ORDER BY node_id, at",
            [node_ids, hour, hour + HOUR],
        )
        for node_id, data in cursor:
            minutes.setdefault(node_id, []).append(bytes(data))
        with cursor.copy("COPY telemetry_noderollup (cluster_id, node_id, at, data) FROM STDIN") as copy:
            for node_id, raw in minutes.items():
                copy.write_row((cluster_id, node_id, hour, roll(hour, raw)))
    return len(minutes)


def is_rolled(hour: datetime) -> bool:
    """Whether every cluster's samples of that hour are rolled up."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT 1 FROM (SELECT DISTINCT cluster_id FROM telemetry_nodehistory WHERE at >= %s AND at < %s) c"
            " WHERE NOT EXISTS (SELECT 1 FROM telemetry_noderollup r WHERE r.at = %s AND r.cluster_id = c.cluster_id)"
            " LIMIT 1",
            [hour, hour + HOUR, hour],
        )
        return cursor.fetchone() is None
