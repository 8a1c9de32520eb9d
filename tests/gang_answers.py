"""An observer of which only the part that answers what-ifs runs, upon a board that the test made."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from types import SimpleNamespace
from typing import Any, cast

from fleet.gangs import asking
from fleet.gangs.board import Board
from fleet.observer.gangasks import GangAsks
from tests.builders import T0


def asks_of(cluster_id: int, board: Board | None, stop: threading.Event, at: datetime = T0) -> GangAsks:
    session = SimpleNamespace(cluster_id=cluster_id, stop=stop, stopping=stop.is_set)
    gangs = SimpleNamespace(standing=threading.Lock(), board=board, board_at=at if board else None)
    return GangAsks(cast(Any, session), cast(Any, gangs))


@contextlib.contextmanager
def answering(cluster_id: int, board: Board | None) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=asks_of(cluster_id, board, stop).run, daemon=True)
    thread.start()
    end = time.monotonic() + 5
    while not asking.listens(cluster_id) and time.monotonic() < end:
        time.sleep(0.005)
    try:
        yield
    finally:
        stop.set()
        thread.join(5)
