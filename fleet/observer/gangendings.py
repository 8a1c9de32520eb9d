"""The black box of jobs: what was known when one failed, gathered once and written.

Decides that verdicts and placement groups are those of the moment at which the failure is seen, that the log and the
events are fetched beside everything else within a short while, and that what could not be had is said in words. Refuses
to write to the cluster: a longer time to live for the job's objects is an act, and belongs to whoever acts
(`Failure.objects` names them).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any

from fleet.bus.outbox import Notice, publish
from fleet.gangs import endings
from fleet.gangs.board import Board
from fleet.gangs.endings import Failure, Once
from fleet.gangs.form import Gang
from fleet.observer.gangwatch import TOPIC
from fleet.observer.session import Session
from fleet.ports.cluster import EventSeen
from fleet.ports.errors import PortError
from fleet.ports.gangs import GangObject
from fleet.ports.ray import RayDashboard, RayReading

log = logging.getLogger(__name__)
AT_ONCE = 2
LINES = 1000
PODS_NAMED = 50  # of one gang, whose own events are asked for
ELSEWHERE = frozenset({"slurm", "yunikorn"})  # systems whose objects are none of the API server
Events = Callable[[str, str, str], Sequence[EventSeen]]  # kind, name, namespace


class GangEndings:
    def __init__(
        self,
        session: Session,
        readings: Callable[[], Mapping[str, RayReading]],
        dashboard: Callable[[str], RayDashboard | None],
        verdicts: Callable[[Iterable[str]], list[dict[str, Any]]],
        events: Callable[[], Events],
    ) -> None:
        self._session, self._readings, self._dashboard = session, readings, dashboard
        self._verdicts, self._events = verdicts, events
        self._seen: dict[str, Gang] = {}
        self._homes: dict[str, Gang] = {}  # key of an object -> its gang when it had nodes last
        self._known: set[Once] | None = None
        self._lock = threading.Lock()
        self._gathered: list[Failure] = []
        self._writing: list[Failure] = []
        self._pool: ThreadPoolExecutor | None = None

    def look(self, board: Board, now: datetime) -> bool:
        if self._known is None:
            self._known = self._session.once(lambda: endings.known(self._session.cluster_id, now - endings.LATE))
        for key, gang in board.gangs.items():
            if self._seen.get(key) is not gang:
                self._seen[key] = gang
                self._changed(gang, now)
        for key in [key for key in self._seen if key not in board.gangs]:
            del self._seen[key]
        self._forget(board)
        with self._lock:
            self._writing = list(self._gathered)
        return bool(self._writing)

    def store(self, now: datetime) -> None:
        endings.store(self._session.cluster_id, self._writing, now)
        publish(self._session.cluster_id, [Notice(TOPIC, one.gang_key[:128]) for one in self._writing], now)

    def settle(self, now: datetime) -> None:
        with self._lock:
            self._gathered = [one for one in self._gathered if one not in self._writing]
        self._writing = []

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def _changed(self, gang: Gang, now: datetime) -> None:
        failed = endings.failed(gang)
        if gang.nodes:
            for one in gang.objects:
                self._homes[one.ref.key] = gang
        if failed is None:
            return
        home = self._homes.get(failed.ref.key, gang)
        found = endings.failure(home, failed, now)
        if found is None or self._known is None or found.once in self._known or self._is_known(found, failed):
            return
        self._known.add(found.once)
        self._begin(found, home, failed)

    def _is_known(self, found: Failure, failed: GangObject) -> bool:
        """An object that tells no time of its end failed once, whenever it was seen."""
        same = (found.once[0], found.once[1])
        return failed.ended_at is None and any((place, title) == same for place, title, _ in self._known or ())

    def _begin(self, found: Failure, home: Gang, failed: GangObject) -> None:
        reading = self._readings().get(home.key)
        found.nodes = self._session.once(lambda: self._verdicts(home.nodes))
        if not home.nodes:
            found.missing.append("Its nodes: none was known when it failed.")
        if failed.ray is not None:
            found.placement_groups = reading.placement_groups if reading is not None else ()
            if reading is None or "placement_groups" in reading.unread:
                found.missing.append("Its placement groups: the dashboard did not tell them.")
        if self._pool is None:
            self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="endings")
        self._pool.submit(self.gather, found, home, failed, reading)

    def gather(self, found: Failure, home: Gang, failed: GangObject, reading: RayReading | None) -> None:
        """Fetch what has to be asked for; whatever happens, the failure is kept."""
        try:
            if failed.ray is not None:
                self._log(found, self._dashboard(home.key), reading)
            self._events_of(found, home)
        except Exception:
            log.exception("the evidence of %s", found.title)
            found.missing.append("More of it: gathering ended for a reason that is in the observer's log.")
        with self._lock:
            self._gathered.append(found)

    def _log(self, found: Failure, dashboard: RayDashboard | None, reading: RayReading | None) -> None:
        over = [job for job in (reading.jobs if reading is not None else ()) if job.submission]
        over.sort(key=lambda job: (job.status == "FAILED", job.ended_at or job.started_at or found.at))
        if dashboard is None or not over:
            found.missing.append("The driver's log: no dashboard told which job it was.")
            return
        try:
            found.log_tail = dashboard.log_tail(over[-1].submission, LINES)
        except PortError as error:
            found.missing.append(f"The driver's log: {error}")
        found.message = found.message or over[-1].message

    def _events_of(self, found: Failure, home: Gang) -> None:
        asked = [
            (one.ref.kind, one.ref.name, one.ref.namespace)
            for one in found.objects
            if one.ref.system not in ELSEWHERE
        ]  # fmt: skip
        pods = [member.key.partition("/") for member in home.members if "/" in member.key and member.uid]
        asked += [("Pod", name, namespace) for namespace, _, name in pods[:PODS_NAMED]]
        try:
            events_of = self._events()
            told = [event for one in asked for event in events_of(*one)]
        except PortError as error:
            found.missing.append(f"Its events: {error}")
            return
        told.sort(key=lambda event: (event.at is not None, event.at or found.at))
        found.events = told

    def _forget(self, board: Board) -> None:
        """Gangs whose objects are all gone cannot fail any more."""
        if len(self._homes) > 2 * len(board.gangs) + 1000:
            there = {one.ref.key for gang in board.gangs.values() for one in gang.objects}
            self._homes = {key: gang for key, gang in self._homes.items() if key in there}
