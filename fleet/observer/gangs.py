"""The gangs of the cluster: every group, queue and pod that the watches tell, into rows a few times a minute.

Decides which kinds are watched (asked of discovery again once in a while, for an operator may come later), that pods
count only after their first list, and how often all is judged. Refuses to guess from half a picture: a kind that was
never listed holds the first writing back for a while, and what cannot be read is a stated condition of the cluster.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Protocol

import orjson
from django.db import transaction

from fleet.bus import outbox
from fleet.gangs import board, services
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Out, Rooms
from fleet.gangs.roster import Roster
from fleet.gangs.rows import Columns
from fleet.gangs.services import Ledger
from fleet.inventory import lease
from fleet.observer.conditions import Conditions
from fleet.observer.gangrooms import RoomBook
from fleet.observer.session import DATABASE_AWAY, Session, Stopping
from fleet.observer.world import World
from fleet.ports.cluster import Change, PodSeen, WatchState
from fleet.ports.errors import PortError
from fleet.ports.gangs import GangPoll, GangWatcher, Kind, Spoken

log = logging.getLogger(__name__)
TURN_EVERY = 2.0
DISCOVER_EVERY = 60.0
POLL_EVERY = 10.0
OUTS_EVERY = 5.0  # seconds for which it is believed why nodes are out; a cordon or a lost node is seen at once
PATIENCE = 30.0  # seconds for which a kind that has not been listed holds the first writing back
RETRY = 5.0


class Onlooker(Protocol):
    """Whoever makes rows of each new board, too. `look` says whether there is anything to write, and reads what it
    needs; `store` writes in the transaction of the fence; `settle` is told of its commit."""

    def look(self, board: Board, now: datetime) -> bool: ...

    def store(self, now: datetime) -> None: ...

    def settle(self, now: datetime) -> None: ...


class Gangs:
    """Of one holding of the lease. The roster is fed by many threads, so one lock stands before it."""

    def __init__(
        self,
        session: Session,
        world: World,
        conditions: Conditions,
        watcher: Callable[[], GangWatcher | None],
        polls: Callable[[], Sequence[GangPoll]],
        outs: Callable[[], Mapping[str, Out]],
    ) -> None:
        self._session, self._world, self._conditions = session, world, conditions
        self._watcher, self._polls, self._outs = watcher, polls, outs
        self._lock = threading.Lock()
        self._roster = Roster()
        self._book = RoomBook()
        self._ledger = Ledger(session.cluster_id)
        self._columns = Columns()
        self._watched: dict[Kind, threading.Thread] = {}
        self._unlisted: set[str] = set()
        self._unpolled: set[str] | None = None  # systems that are asked and have not answered yet
        self._discovered_at = self._outs_at = float("-inf")
        self._why_out: Mapping[str, Out] = {}
        self._begun_at = session.clock.monotonic()
        self.pods_listed = threading.Event()
        self.standing = threading.Lock()  # who holds it may look at the board: it is not changed meanwhile
        self.board: Board | None = None  # the last one, for whoever asks what-ifs here
        self.board_at: datetime | None = None
        self.onlookers: list[Onlooker] = []

    # -- what the watches tell -----------------------------------------------------------------------------------

    def pod_change(self, change: Change) -> None:
        with self._lock:
            if change.kind == "synced":
                self._roster.members_only(change.names)
                self.pods_listed.set()
            elif isinstance(change.item, PodSeen) and change.item.member is not None:
                if change.kind == "deleted":
                    self._roster.leave(change.item.key)
                else:
                    self._roster.member(change.item.member)

    def spoken_change(self, source: str, change: Change) -> None:
        with self._lock:
            if change.kind == "synced":
                self._roster.keep_only(source, change.names)
                self._unlisted.discard(source)
            elif isinstance(change.item, Spoken):
                if change.kind == "deleted":
                    self._roster.silence(source, change.item.key)
                else:
                    self._roster.speak(source, change.item)

    # -- threads -------------------------------------------------------------------------------------------------

    def discover(self) -> None:
        """Watch every kind that is served and not watched yet; forget those that are served no more."""
        now = self._session.clock.monotonic()
        if now - self._discovered_at < DISCOVER_EVERY:
            return
        self._discovered_at = now
        try:
            watcher = self._watcher()
            kinds = () if watcher is None else watcher.kinds()
        except PortError as error:
            self._conditions.state("gang_kinds", str(error), self._session.clock.now())
            return
        self._conditions.mend("gang_kinds")
        for kind in kinds:
            if kind not in self._watched:
                self._unlisted.add(_source(kind))
                thread = threading.Thread(target=self._watch, args=(kind,), name=f"watch-{kind.plural}", daemon=True)
                self._watched[kind] = thread
                thread.start()
        for kind in [kind for kind in self._watched if kind not in kinds]:
            del self._watched[kind]  # its thread sees that and ends
            with self._lock:
                self._roster.keep_only(_source(kind), frozenset())
                self._unlisted.discard(_source(kind))

    def _watch(self, kind: Kind) -> None:
        source = _source(kind)
        ends = lambda: self._session.stopping() or kind not in self._watched  # noqa: E731
        while not ends():
            try:
                watcher = self._watcher()
                for change in watcher.watch(kind, ends, self._heard) if watcher is not None else ():
                    self.spoken_change(source, change)
            except PortError as error:
                self._conditions.state(f"watch_{source}"[:64], str(error), self._session.clock.now())
            except Exception:
                log.exception("the watch of %s ended", source)
            self._session.stop.wait(RETRY)

    def _heard(self, state: WatchState) -> None:
        self._conditions.watch(state, self._session.clock.now())

    def poll(self) -> None:
        """Ask the systems that have no watch. One that does not answer keeps what it said last, and that is stated.

        In a thread of its own: a system that is slow holds up nobody who watches.
        """
        try:
            polls = self._polls()
        except PortError as error:
            self._conditions.state("gang_polls", str(error), self._session.clock.now())
            return
        self._conditions.mend("gang_polls")
        if self._unpolled is None:
            self._unpolled = {poll.system for poll in polls}
        for poll in polls:
            try:
                reading = poll.read()
            except PortError as error:
                self._conditions.state(f"gangs_{poll.system}", str(error), self._session.clock.now())
                continue
            with self._lock:
                self._roster.reading(reading, poll.system)
            self._unpolled.discard(poll.system)
            if reading.troubles:
                self._conditions.state(f"gangs_{poll.system}", " ".join(reading.troubles)[:500], reading.at)
            else:
                self._conditions.mend(f"gangs_{poll.system}")

    # -- judging and writing -------------------------------------------------------------------------------------

    def turn(self) -> None:
        session = self._session
        self.discover()
        if not self._whole():
            return
        if not self._ledger.loaded:
            session.once(self._ledger.load)
        with self.standing:
            made = self.board = self.judge()
            self.board_at = session.clock.now()
        gangs, queues = self._columns.of(made)
        now = session.clock.now()
        writers = [one for one in self.onlookers if self._has_news(one, made, now)]
        if gangs == self._ledger.gangs and queues == self._ledger.queues and not writers:
            return
        session.way.give()
        session.once(lambda: self._store(gangs, queues, writers, now))
        services.settle(self._ledger, gangs, queues, now)
        for one in writers:
            one.settle(now)
        outbox.hint(orjson.dumps([{"topic": "gang", "ref": "", "node": "", "cluster": session.cluster_id}]))

    def _has_news(self, one: Onlooker, made: Board, now: datetime) -> bool:
        """An onlooker that fails unforeseen is logged, and takes neither the gangs nor the others with it."""
        try:
            return one.look(made, now)
        except (Stopping, *DATABASE_AWAY):
            raise
        except Exception:
            log.exception("%s failed; gangs are written without it", type(one).__name__)
            return False

    def _whole(self) -> bool:
        if not (self.pods_listed.is_set() and self._world.nodes_synced.is_set()):
            return False
        waited = self._session.clock.monotonic() - self._begun_at
        asked = self._unpolled is not None and not self._unpolled
        return (asked and not self._unlisted) or waited > PATIENCE

    def judge(self) -> Board:
        now = self._session.clock.monotonic()
        if now - self._outs_at >= OUTS_EVERY:
            self._why_out, self._outs_at = self._outs(), now
        with self._lock:
            gangs, queues = dict(self._roster.gangs()), self._roster.queues()
            rooms: Rooms = self._book.rooms(self._world.nodes, self._roster, self._why_out)
        return board.read(gangs, queues, rooms, self.board)

    def starved(self, keys: Iterable[str]) -> None:
        """Gangs that wait although their members are placed: what they hold is idle."""
        with self._lock:
            self._roster.starved(keys)

    def _store(
        self,
        gangs: Mapping[str, services.Columns],
        queues: Mapping[str, services.Columns],
        writers: Sequence[Onlooker],
        now: datetime,
    ) -> None:
        with transaction.atomic():
            lease.guard(self._session.cluster_id, self._session.epoch)
            services.store(self._ledger, gangs, queues, now)
            for one in writers:
                one.store(now)


def _source(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}"
