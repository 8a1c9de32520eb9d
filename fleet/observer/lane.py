"""The fast lane: kernel lines from receipt to commit.

Decides that whatever arrived while one commit ran goes into the next one together, so a burst of a thousand requests is
a few transactions. A request is answered only after its lines are committed. Refuses to wait long for a database that
is away: the shipper is told to come again, and the edges found meanwhile stay queued for whoever commits next. What
cannot be judged is refused alone: it takes nobody else's lines with it, and its sender is told not to come again.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django.db import connection

from fleet.observer.judge import Heard, Judge
from fleet.observer.session import DATABASE_AWAY, Session, Stopping

log = logging.getLogger(__name__)
MAX_LINES = 20_000
SWITCH_SECONDS = 0.0005
"""How long a computing thread keeps others from the interpreter. A commit asks for it again after each of some thirty
answers of the database: with the usual 5 ms, a cycle or a scrape that computes would cost a line 150 ms."""


class NotJudged(Exception):
    """These lines failed for a reason of their own; they would fail again."""


@dataclass(slots=True)
class _Parcel:
    lines: Sequence[tuple[str, Heard]]
    done: Callable[[bool | None], None]  # stored, not stored now, or (None) never to be stored


@dataclass(slots=True)
class Lane:
    """One thread; `submit` may be called from any other."""

    session: Session
    judge: Judge
    committed: Callable[[], None]
    counts: Counter[str] = field(default_factory=Counter)
    _parcels: queue.Queue[_Parcel] = field(default_factory=queue.Queue)

    def start(self) -> threading.Thread:
        sys.setswitchinterval(SWITCH_SECONDS)
        thread = threading.Thread(target=self._run, name="lane", daemon=True)
        thread.start()
        return thread

    async def take(self, lines: Sequence[tuple[str, Heard]]) -> bool:
        """True once the lines are judged and committed; False when the database did not take them. Raises NotJudged."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[bool | None] = loop.create_future()

        def done(stored: bool | None) -> None:
            loop.call_soon_threadsafe(lambda: None if answer.done() else answer.set_result(stored))

        self._parcels.put(_Parcel(lines, done))
        stored = await answer
        if stored is None:
            raise NotJudged
        return stored

    def _run(self) -> None:
        try:
            while not self.session.stopping():
                parcels = self._collect()
                if parcels:
                    stored = self._process(parcels)
                    if stored is None and len(parcels) > 1:  # one of them is bad: find out which
                        for parcel in parcels:
                            parcel.done(self._process([parcel]))
                        continue
                    for parcel in parcels:
                        parcel.done(stored)
        finally:
            connection.close()

    def _collect(self) -> list[_Parcel]:
        """The next parcel, and all that came with it."""
        try:
            parcels = [self._parcels.get(timeout=0.2)]
        except queue.Empty:
            return []
        lines = len(parcels[0].lines)
        while lines < MAX_LINES:
            try:
                parcels.append(self._parcels.get_nowait())
            except queue.Empty:
                break
            lines += len(parcels[-1].lines)
        return parcels

    def _process(self, parcels: Sequence[_Parcel]) -> bool | None:
        try:
            lines = [line for parcel in parcels for line in parcel.lines]
            nodes = {node for node, _ in lines}
            with self.session.way.taken():
                self.judge.hear(lines)
                while self.session.once(lambda: self.judge.commit_at_once(nodes)):
                    self.committed()
        except Stopping:
            return False
        except DATABASE_AWAY as error:
            self.session.complain(error)
            self.session.stop.wait(0.1)
            return False
        except Exception:
            log.exception("kernel lines could not be judged")
            return None
        self.counts["lines"] += sum(len(parcel.lines) for parcel in parcels)
        return True
