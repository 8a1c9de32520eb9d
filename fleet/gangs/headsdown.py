"""Since when heads of Ray clusters are down, over restarts of whoever watches: the operator overwrites its condition.

Decides that a head which nobody tells of any more is not down. Refuses to judge how long it may be so.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django.db import connection

from fleet.gangs.board import Board
from fleet.gangs.conditions.rayfacts import cluster_of
from fleet.gangs.models import GangRow


class HeadsDown:
    """`since` by gang key. `load` after a start, `look` at each board, `store` in the transaction of the fence."""

    def __init__(self, cluster_id: int) -> None:
        self._cluster_id = cluster_id
        self._written: dict[str, datetime] = {}
        self.since: dict[str, datetime] = {}

    def load(self) -> None:
        rows = GangRow.objects.filter(cluster_id=self._cluster_id, gone_at=None).exclude(head_down_since=None)
        self._written = {
            row.key: row.head_down_since
            for row in rows.only("key", "head_down_since")
            if row.head_down_since is not None
        }
        self.since = dict(self._written)

    def look(self, board: Board, keys: Iterable[str], now: datetime) -> None:
        """`keys`: gangs that are Ray's."""
        found: dict[str, datetime] = {}
        for key in keys:
            cluster = cluster_of(board.gangs[key])
            if cluster is None or cluster.ray is None or cluster.ray.head_ready is not False:
                continue
            told = cluster.ray.head_changed_at
            known = self.since.get(key, now)
            found[key] = min(known, told) if told is not None else known
        self.since = found

    @property
    def changed(self) -> bool:
        return self.since != self._written

    def store(self) -> None:
        if not connection.in_atomic_block:
            raise RuntimeError("heads that are down are written in the transaction of the fence")
        rows = GangRow.objects.filter(cluster_id=self._cluster_id)
        rows.filter(key__in=[key for key in self._written if key not in self.since]).update(head_down_since=None)
        for key, since in self.since.items():
            if self._written.get(key) != since:
                rows.filter(key=key).update(head_down_since=since)

    def settle(self) -> None:
        self._written = dict(self.since)
