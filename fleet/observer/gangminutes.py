"""The minutes of a cluster's queues, one row each.

Decides when a minute is due. Refuses to make up for minutes that nobody saw.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.gangs import minutes
from fleet.gangs.board import Board
from fleet.observer.session import Session


class GangMinutes:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._written: datetime | None = None
        self._values: dict[str, Any] = {}

    def look(self, board: Board, now: datetime) -> bool:
        if self._written is not None and _minute(now) <= self._written:
            return False
        self._values = minutes.columns(board, now)
        return True

    def store(self, now: datetime) -> None:
        minutes.store(self._session.cluster_id, _minute(now), self._values)

    def settle(self, now: datetime) -> None:
        self._written = _minute(now)


def _minute(at: datetime) -> datetime:
    return at.replace(second=0, microsecond=0)
