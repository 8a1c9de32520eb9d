"""What the API server remembers: objects as JSON bytes, one growing resourceVersion, a bounded history per kind.

It decides the version of every object, what a watcher can still catch up with, and when that is gone for good.
It refuses to interpret objects beyond the few fields that selectors and controllers ask for all the time; bytes
instead of dictionaries keep 80,000 pods small and make a list a matter of joining strings.
"""

import asyncio
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import orjson

from fleet.simulator.kube.kinds import KINDS, Kind
from fleet.simulator.timeline import micro_stamp, stamp

Json = dict[str, Any]

# Stands in a live node's body for "just now", so that a heartbeat costs nothing until somebody reads it.
HEARTBEAT = "0001-01-01T00:00:01Z"
RENEWAL = "0001-01-01T00:00:01.000000Z"


class Record(NamedTuple):
    """One version of one object; never changed, only followed by another."""

    namespace: str
    name: str
    uid: str
    rv: int
    body: bytes
    labels: dict[str, str]
    node: str = ""
    phase: str = ""
    ready: bool = False
    deleting: bool = False

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Event(NamedTuple):
    """One line of history. `before` lets a selecting watcher tell "now out of your sight" from "never mattered"."""

    rv: int
    type: str
    record: Record
    before: Record | None


Listener = Callable[[Event], None]


def _record(obj: Json, rv: int) -> Record:
    meta = obj["metadata"]
    meta["resourceVersion"] = str(rv)
    status = obj.get("status") or {}
    ready = any(c.get("type") == "Ready" and c.get("status") == "True" for c in status.get("conditions") or ())
    return Record(
        meta.get("namespace", ""),
        meta["name"],
        meta["uid"],
        rv,
        orjson.dumps(obj),
        {sys.intern(k): sys.intern(v) for k, v in (meta.get("labels") or {}).items()},
        sys.intern((obj.get("spec") or {}).get("nodeName") or ""),
        sys.intern(status.get("phase") or ""),
        ready,
        "deletionTimestamp" in meta,
    )


class Collection:
    """All objects of one kind with their recent history and those who follow it."""

    def __init__(self, kind: Kind, store: "Store", history: int) -> None:
        self.kind = kind
        self.store = store
        self.records: dict[str, Record] = {}
        self.by_node: dict[str, dict[str, Record]] = {}
        self.history: deque[Event] = deque()
        self.capacity = history
        self.dropped = 0  # how many events have left the history: the absolute number of its first one
        self.floor = 0  # the newest version that can no longer be replayed
        self.followers: set[asyncio.Event] = set()
        self.listeners: list[Listener] = []
        self._sorted: list[str] | None = None

    def get(self, key: str) -> Record | None:
        return self.records.get(key)

    def read(self, key: str) -> Json | None:
        """A fresh copy that the caller may change and hand to put()."""
        record = self.records.get(key)
        return None if record is None else orjson.loads(record.body)

    def put(self, obj: Json) -> Record:
        """Store a new version; the caller has checked whatever had to be checked."""
        record = _record(obj, self.store.next_rv())
        before = self.records.get(record.key)
        self.records[record.key] = record
        if before is None:
            self._sorted = None
        if before is not None and before.node and before.node != record.node:
            self.by_node[before.node].pop(record.key, None)
        if record.node:
            self.by_node.setdefault(record.node, {})[record.key] = record
        self._tell(Event(record.rv, "MODIFIED" if before else "ADDED", record, before))
        return record

    def remove(self, key: str) -> Record | None:
        record = self.records.pop(key, None)
        if record is None:
            return None
        self._sorted = None
        if record.node:
            self.by_node[record.node].pop(key, None)
        obj = orjson.loads(record.body)
        last = _record(obj, self.store.next_rv())
        self._tell(Event(last.rv, "DELETED", last, record))
        return last

    def ordered(self) -> list[Record]:
        """In the order of the keys, as etcd hands them out."""
        if self._sorted is None:
            self._sorted = sorted(self.records)
        return [self.records[key] for key in self._sorted]

    def on_node(self, node: str) -> list[Record]:
        return list(self.by_node.get(node, {}).values())

    def end(self) -> int:
        """The absolute number the next event will have."""
        return self.dropped + len(self.history)

    def since(self, number: int) -> Iterator[Event]:
        """Events from an absolute number on; the caller has checked that it is not dropped."""
        for i in range(number - self.dropped, len(self.history)):
            yield self.history[i]

    def number_after(self, rv: int) -> int:
        """The absolute number of the first event newer than that version."""
        position = len(self.history)
        while position and self.history[position - 1].rv > rv:
            position -= 1
        return self.dropped + position

    def forget_history(self) -> None:
        """Compaction: nobody can catch up from before this moment."""
        self.dropped += len(self.history)
        self.history.clear()
        self.floor = self.store.rv

    def _tell(self, event: Event) -> None:
        self.history.append(event)
        if len(self.history) > self.capacity:
            self.floor = self.history.popleft().rv
            self.dropped += 1
        for follower in self.followers:
            follower.set()
        for listener in self.listeners:
            listener(event)


class Store:
    """Every collection and the one version counter they share."""

    def __init__(self, history: int = 8192, heartbeat: float = 10.0) -> None:
        # Grows over restarts too, so that a client that comes back with an old version is told that it is gone.
        self.rv = int(time.time() * 100)
        self.heartbeat = heartbeat
        self.skews: dict[str, float] = {}
        self.collections = {kind.id: Collection(kind, self, history) for kind in KINDS if kind.stored}

    def __getitem__(self, plural: str) -> Collection:
        return self.collections[plural]

    def next_rv(self) -> int:
        self.rv += 1
        return self.rv

    def begin(self) -> None:
        """End of the construction: what was made so far is the initial state, not history."""
        for collection in self.collections.values():
            collection.forget_history()

    def render(self, record: Record, kind: Kind) -> bytes:
        """The body with the heartbeats of this moment in it, without kind and apiVersion."""
        if not kind.beats:
            return record.body
        moment = time.time() // self.heartbeat * self.heartbeat + self.skews.get(record.name, 0.0)
        body = record.body.replace(RENEWAL.encode(), micro_stamp(moment).encode())
        return body.replace(HEARTBEAT.encode(), stamp(int(moment)).encode())

    def render_whole(self, record: Record, kind: Kind) -> bytes:
        return kind.prefix + self.render(record, kind)[1:]

    def bodies(self, records: Iterable[Record], kind: Kind) -> bytes:
        return b",".join(self.render(record, kind) for record in records)
