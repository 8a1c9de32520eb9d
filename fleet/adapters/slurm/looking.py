"""ClusterReader on slurmrestd: for a cluster that only Slurm tells of.

Decides that nodes and jobs are asked again and again and that what differs is told like the events of a watch; what
could not be asked leaves the picture as it was, with the sentence why. Refuses to call a node empty while Slurm itself
says that something is on it, and to be asked for what only Kubernetes has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from fleet.adapters.slurm import Connection, reservations, seen, submitting, work
from fleet.adapters.slurm.client import Slurmrestd
from fleet.adapters.slurm.reservations import Reservation
from fleet.adapters.slurm.values import states
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import Change, EventSeen, NodeSeen, PodSeen, RequestSeen, WatchState
from fleet.ports.errors import NotFound, PortError, TemporaryError
from fleet.ports.shapes import items, text

LOOK_LEAST, LOOK_MOST, LOOK_SHARE = 3.0, 30.0, 10
"""Seconds between two looks: ten times as long as a look takes, within these bounds, for slurmctld locks meanwhile."""
PAUSE = 0.1
LONGEST_NAME = 253
CLOCKS = timedelta(minutes=1)
"""So far Slurm's clock may be ahead of ours."""
MOST_ENDING = 10_000
HEARTBEAT_EVERY = timedelta(seconds=20)
"""A node of which nothing else differs is told anew so often: a change of its heartbeat alone is worth no more."""
COUNTED = "MIXED"
BUSY = frozenset({"ALLOCATED", COUNTED, "COMPLETING"})
Item = NodeSeen | PodSeen


class SlurmReader:
    def __init__(self, connection: Connection, clock: Clock = SYSTEM_CLOCK) -> None:
        self._rest = Slurmrestd(connection)
        self._clock = clock
        self._ending: dict[str, datetime] = {}

    def check(self) -> list[str]:
        """What it reads all day. Slurm knows no rights to read beyond a valid token."""
        missing = [] if self.nodes() else ["Slurm tells of no node."]
        self._jobs()
        return missing

    def server_version(self) -> str:
        return self._rest.version

    def nodes(self) -> list[NodeSeen]:
        now, booked = self._clock.now(), self._booked()
        return [seen.node(raw, now, booked) for raw in self._rest.rows("nodes") if _named(raw)]

    def node(self, name: str) -> NodeSeen:
        booked = self._booked()
        return seen.node(self._raw(name), self._clock.now(), booked)

    def pods_on(self, node: str) -> list[PodSeen]:
        """The ranks that hold the node. Its jobs may be over while an epilog still runs: then it is not empty."""
        found = [pod for raw in self._jobs() for pod in self._ranks(raw) if pod.node == node]
        if not found and (busy := _words(self._counted(node)) & BUSY):
            words = f"Slurm says {'+'.join(sorted(busy))} of {node} and names no job on it; it is looked at again."
            raise TemporaryError(words, code="slurm_error")
        return found

    def counted(self, name: str) -> NodeSeen:
        """The node with what runs on it as it is now."""
        booked = self._booked()
        return seen.node(self._counted(name), self._clock.now(), booked)

    def unscheduled_pods(self) -> list[PodSeen]:
        people = [raw for raw in self._jobs() if not submitting.is_test(raw)]
        return [pod for raw in people if (pod := work.waiting(raw)) is not None]

    def requests_on(self, node: str) -> list[RequestSeen]:
        return []

    def events_of(self, kind: str, name: str, namespace: str = "") -> list[EventSeen]:
        return []

    def watch_nodes(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return self._watch("nodes", self.nodes, _same_node, stop, on_state)

    def watch_pods(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return self._watch("pods", self._pods, _same, stop, on_state)

    def _pods(self) -> list[PodSeen]:
        return [pod for raw in self._jobs() for pod in self._ranks(raw)]

    def _ranks(self, raw: dict[str, Any]) -> list[PodSeen]:
        """Since when it ends Slurm does not tell of a job that is requeued: then since we saw it first."""
        found = work.running(raw)
        if not found or not work.ends(raw):
            return found
        now = self._clock.now()
        told = found[0].deleting_since
        if told is not None and told <= now + CLOCKS:
            return found
        if len(self._ending) > MOST_ENDING:
            self._ending.clear()
        since = self._ending.setdefault(found[0].uid, now)
        return [replace(pod, deleting_since=since) for pod in found]

    def _booked(self) -> list[Reservation]:
        """Read before the nodes: a reservation of ours stands before the drain is lifted, and after it is back."""
        return reservations.those_beside_ours(self._rest.rows("reservations"))

    def _jobs(self) -> list[dict[str, Any]]:
        return self._rest.rows("jobs")

    def _raw(self, name: str) -> dict[str, Any]:
        found = [raw for raw in items(self._rest.get(f"node/{name}").get("nodes")) if raw.get("name") == name]
        if not found:
            raise NotFound(f"Slurm knows no node {name}.")
        return found[0]

    def _counted(self, name: str) -> dict[str, Any]:
        """slurmctld counts what runs on its nodes when it lists them all: one that is asked for alone is told with the
        counts of the last list, and may be MIXED for long after its job has ended. Its other words are always true."""
        raw = self._raw(name)
        if COUNTED not in _words(raw):
            return raw
        listed = self._rest.rows("nodes")
        return next((one for one in listed if one.get("name") == name), raw)

    def _watch(
        self,
        resource: str,
        look: Callable[[], Sequence[Item]],
        same: Callable[[Item, Item], bool],
        stop: Callable[[], bool],
        on_state: Callable[[WatchState], None],
    ) -> Iterator[Change]:
        known: dict[str, Item] = {}
        first = True
        while not stop():
            began = time.monotonic()
            try:
                found = {_key(item): item for item in look()}
                if resource == "nodes" and known and not found:  # its table is hidden from us, or not loaded yet
                    raise TemporaryError("Slurm tells of no node.", code="slurm_error")
            except PortError as error:
                on_state(WatchState(resource, False, self._clock.now(), str(error), error.code))
            else:
                on_state(WatchState(resource, True, self._clock.now()))
                before, known = known, {key: _kept(known.get(key), item, same) for key, item in found.items()}
                yield from _changes(before, known)
                if first:
                    yield Change("synced", names=frozenset(known))
                    first = False
            _wait(stop, min(max(LOOK_SHARE * (time.monotonic() - began), LOOK_LEAST), LOOK_MOST))


def _words(raw: dict[str, Any]) -> frozenset[str]:
    return states(raw.get("state"), raw.get("state_flags"))


def _kept(old: Item | None, new: Item, same: Callable[[Item, Item], bool]) -> Item:
    """The old object where nothing differs, so that who compares by identity sees no change."""
    return old if old is not None and same(old, new) else new


def _named(raw: dict[str, Any]) -> bool:
    """A node without a name, or with one that no table holds, is none."""
    return 0 < len(text(raw.get("name"))) <= LONGEST_NAME


def _changes(before: dict[str, Item], after: dict[str, Item]) -> Iterator[Change]:
    for key, item in after.items():
        if before.get(key) is not item:
            yield Change("modified" if key in before else "added", item)
    for key, item in before.items():
        if key not in after:
            yield Change("deleted", item)


def _key(item: Item) -> str:
    return item.key if isinstance(item, PodSeen) else item.name


def _same(old: Item, new: Item) -> bool:
    return old == new


def _same_node(old: Item, new: Item) -> bool:
    """But for a heartbeat that is hardly newer."""
    if not isinstance(old, NodeSeen) or not isinstance(new, NodeSeen):
        return False
    beats = old.heartbeat_at, new.heartbeat_at
    if beats[0] is None or beats[1] is None or beats[1] - beats[0] >= HEARTBEAT_EVERY:
        return old == new
    return replace(old, heartbeat_at=new.heartbeat_at) == new


def _wait(stop: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not stop() and time.monotonic() < end:
        time.sleep(PAUSE)
