"""One holding of a cluster's lease, and how its threads live with a database that may go away.

Decides who stops whom: losing the lease or a stop signal ends all threads. Trouble of the database never does: the work
is tried again for ever with a back-off, and what was to be written waits in memory. Refuses to write without the lease.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TypeVar

from django.db import InterfaceError, OperationalError, connection

from fleet.inventory.aliases import AliasTable
from fleet.inventory.lease import LeaseLost
from fleet.inventory.models import Cluster
from fleet.observer.rightofway import RightOfWay
from fleet.ports.clock import Clock

log = logging.getLogger(__name__)
Result = TypeVar("Result")
DATABASE_AWAY = (OperationalError, InterfaceError)
FIRST_WAIT, LONGEST_WAIT = 0.1, 2.0
COMPLAIN_EVERY = 5.0


class Stopping(Exception):
    """The process is to end; whatever was tried is given up."""


@dataclass(slots=True)
class Session:
    """What all threads share. The maps are replaced whole, never changed in place, so readers need no lock."""

    cluster: Cluster
    epoch: int
    clock: Clock
    run_dir: Path
    interval: float
    stop: threading.Event = field(default_factory=threading.Event)
    why: str = ""
    connected_at: datetime | None = None
    node_ids: dict[str, int] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    aliases: AliasTable = field(default_factory=AliasTable)
    database_since: datetime | None = None  # since when the database does not answer
    way: RightOfWay = field(init=False)
    _complained: float = float("-inf")

    def __post_init__(self) -> None:
        self.way = RightOfWay(self.clock)

    @property
    def cluster_id(self) -> int:
        return int(self.cluster.pk)

    @property
    def name(self) -> str:
        return self.cluster.name

    def stopping(self) -> bool:
        return self.stop.is_set()

    def end(self, why: str) -> None:
        """Ask every thread to end."""
        if not self.stop.is_set():
            self.why = why
            self.stop.set()

    def know_nodes(self, ids: dict[str, int]) -> None:
        self.node_ids = ids
        self.names = {pk: name for name, pk in ids.items()}

    def once(self, work: Callable[[], Result]) -> Result:
        """Run `work`, which writes. A broken connection is thrown away so that the next try gets a new one."""
        try:
            result = work()
        except LeaseLost as error:
            self.end(str(error))
            raise Stopping from error
        except DATABASE_AWAY:
            connection.close()
            if self.database_since is None:
                self.database_since = self.clock.now()
            raise
        self.database_since = None
        return result

    def complain(self, error: Exception) -> None:
        """Say that the database is away, once in a while and in one line, whichever threads wait for it."""
        mono = self.clock.monotonic()
        if mono - self._complained >= COMPLAIN_EVERY:
            self._complained = mono
            lines = str(error).strip().splitlines()
            log.warning("waiting for the database: %s", lines[0] if lines else "no answer")

    def persist(self, work: Callable[[], Result]) -> Result:
        """Run `work` until it succeeds; Stopping when the process ends before that."""
        wait = FIRST_WAIT
        while True:
            try:
                return self.once(work)
            except DATABASE_AWAY as error:
                self.complain(error)
                if self.stop.wait(random.uniform(wait / 2, wait)):
                    raise Stopping from error
                wait = min(2 * wait, LONGEST_WAIT)


class Loop(threading.Thread):
    """A thread that turns until the session ends. A turn that fails unforeseen is logged, and the next one comes."""

    def __init__(self, session: Session, name: str, turn: Callable[[], None], every: float, rest: float = 0.0) -> None:
        """Turns begin `every` so many seconds, and when `wake` is set, but never sooner than `rest` after the last."""
        super().__init__(name=name, daemon=True)
        self._session, self._turn, self._every, self._rest = session, turn, every, rest
        self.wake = threading.Event()
        self.failures = 0
        self.turns = 0

    def run(self) -> None:
        session = self._session
        try:
            while not session.stopping():
                began = session.clock.monotonic()
                try:
                    self._turn()
                    self.turns += 1
                except Stopping:
                    return
                except Exception:
                    self.failures += 1
                    log.exception("%s failed; it goes on", self.name)
                ended = session.clock.monotonic()
                self.wake.wait(max(0.02, self._every - (ended - began)))
                session.stop.wait(max(0.0, self._rest - (session.clock.monotonic() - ended)))
                self.wake.clear()
        finally:
            connection.close()
