"""Watches: a stream of JSON lines from a version on, with bookmarks, time-outs and 410.

It decides what a watcher sees of each change, given its selectors, and when it has fallen too far behind. It refuses
to buffer per watcher: all read the one history of their kind, and who is slower than that history is sent away.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator, Callable

import orjson

from fleet.simulator.kube.errors import ApiError, bad_request, expired
from fleet.simulator.kube.kinds import Kind
from fleet.simulator.kube.listing import Listing
from fleet.simulator.kube.selectors import field_selector, label_selector
from fleet.simulator.store import Collection, Event, Record, Store
from fleet.simulator.web import Cut

Sees = Callable[[Record], bool]


class Watching:
    """Serves watches. `cuts` counts the moments at which every open stream was broken mid-line."""

    def __init__(self, store: Store, listing: Listing, bookmark_seconds: float = 60.0) -> None:
        self.store = store
        self.listing = listing
        self.bookmark_seconds = bookmark_seconds
        self.cuts = 0
        self.refuse_next = 0  # how many watches get HTTP 410 instead of a stream
        self.stopping = False

    def cut_all(self) -> int:
        self.cuts += 1
        return self._wake()

    def stop(self) -> None:
        self.stopping = True
        self._wake()

    def _wake(self) -> int:
        followers = [f for c in self.store.collections.values() for f in c.followers]
        for follower in followers:
            follower.set()
        return len(followers)

    def open(self, kind: Kind, namespace: str, query: dict[str, str]) -> AsyncIterator[bytes]:
        """Check the request at once, so that a refusal is an HTTP status; then stream."""
        if self.refuse_next > 0:
            self.refuse_next -= 1
            raise expired("too old resource version")
        if query.get("sendInitialEvents"):
            raise ApiError(422, "Invalid", "sendInitialEvents is forbidden for watch unless WatchList is enabled", {})
        sees = _sight(kind, namespace, query)
        try:
            version = int(query.get("resourceVersion") or 0)
            seconds = float(query.get("timeoutSeconds") or random.uniform(1800, 3600))
        except ValueError:
            raise bad_request("resourceVersion and timeoutSeconds are numbers") from None
        return self._stream(kind, namespace, query, sees, version, seconds)

    async def _stream(
        self, kind: Kind, namespace: str, query: dict[str, str], sees: Sees, version: int, seconds: float
    ) -> AsyncIterator[bytes]:
        collection = self.store[kind.plural]
        position, first = self._start(collection, kind, namespace, query, version)
        if first is not None:
            yield first
        if position < 0:
            return
        bookmarks = query.get("allowWatchBookmarks", "").lower() in ("1", "true")
        wake, cuts = asyncio.Event(), self.cuts
        collection.followers.add(wake)
        end = time.monotonic() + seconds
        bookmark_at = time.monotonic() + self.bookmark_seconds if bookmarks else end
        try:
            while not self.stopping:
                wake.clear()
                if position < collection.dropped:
                    yield _gone(collection.floor, self.store.rv)
                    return
                lines = [self._line(event, kind, sees) for event in collection.since(position)]
                position, seen = collection.end(), self.store.rv
                if any(lines):
                    yield b"".join(lines)
                if self.cuts != cuts:
                    yield b'{"type":"MODIFIED","object":{"kind":"' + kind.kind.encode() + b'","apiVer'
                    raise Cut
                now = time.monotonic()
                if bookmarks and now >= min(bookmark_at, end):
                    yield _bookmark(kind, seen)
                    bookmark_at = now + self.bookmark_seconds
                if now >= end:
                    return
                await _wait(wake, min(bookmark_at, end) - now)
        finally:
            collection.followers.discard(wake)

    def _start(
        self, collection: Collection, kind: Kind, namespace: str, query: dict[str, str], version: int
    ) -> tuple[int, bytes | None]:
        """The number of the first event to send (negative: none) and what to send before it."""
        if version == 0:
            records = self.listing.select(kind, namespace, query)
            known = b"".join(_event("ADDED", self.store.render_whole(r, kind)) for r in records)
            return collection.end(), known or None
        if version < collection.floor:
            return -1, _gone(version, collection.floor)
        return collection.number_after(version), None

    def _line(self, event: Event, kind: Kind, sees: Sees) -> bytes:
        now = event.type != "DELETED" and sees(event.record)
        before = event.before is not None and sees(event.before)
        if not now and not before:
            return b""
        word = "DELETED" if not now else "MODIFIED" if before else "ADDED"
        return _event(word, self.store.render_whole(event.record, kind))


def _sight(kind: Kind, namespace: str, query: dict[str, str]) -> Sees:
    labels = label_selector(query.get("labelSelector", ""))
    fields = field_selector(query.get("fieldSelector", ""), kind.plural)
    return lambda r: (not namespace or r.namespace == namespace) and labels(r.labels) and fields(r)


def _event(word: str, whole: bytes) -> bytes:
    return b'{"type":"' + word.encode() + b'","object":' + whole + b"}\n"


def _bookmark(kind: Kind, version: int) -> bytes:
    """Says how far the watcher has seen; never a version newer than the events it was sent."""
    meta = {"resourceVersion": str(version), "creationTimestamp": None}
    return _event("BOOKMARK", kind.prefix + b'"metadata":' + orjson.dumps(meta) + b"}")


def _gone(version: int, floor: int) -> bytes:
    return _event("ERROR", expired(f"too old resource version: {version} ({floor})").body())


async def _wait(wake: asyncio.Event, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(wake.wait(), max(seconds, 0.0))
