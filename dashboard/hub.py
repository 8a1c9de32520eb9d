"""One Redis subscription per web process, shared by all its live streams.

Decides when hints leave (in batches, every 250 ms), that a stream which cannot keep up is told to read its page again
instead of getting a backlog, and that all streams end when the server stops. A page was made before its stream opens:
what was told since then is told to it first. Refuses state beyond that: a lost hint costs latency.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator, Iterable
from typing import Any

import orjson
import redis.asyncio
from django.conf import settings

from fleet.bus.outbox import HINT_CHANNEL

log = logging.getLogger(__name__)
BATCH_SECONDS = 0.25
QUEUE = 64
LATELY = 2000  # hints that are remembered for pages on their way
ON_ITS_WAY = 5.0  # seconds that a page's word of its age may take until here; what is told twice does no harm
Hint = dict[str, Any]
What = tuple[Any, Any, Any, Any]


def _by_what(hints: Iterable[Hint]) -> dict[What, Hint]:
    return {(h.get("topic"), h.get("ref"), h.get("node"), h.get("cluster")): h for h in hints}


class Batch:
    """Hints of a quarter of a second; encoded once for everybody who may see all clusters."""

    def __init__(self, hints: Iterable[Hint], name: bytes = b"hints") -> None:
        self.hints = list(_by_what(hints).values())
        self.name = name
        self._all = self._event(self.hints)

    def _event(self, hints: list[Hint]) -> bytes:
        return b"event: " + self.name + b"\ndata: " + orjson.dumps(hints) + b"\n\n"

    def event_for(self, clusters: frozenset[int] | None) -> bytes:
        if clusters is None:
            return self._all
        seen = [hint for hint in self.hints if hint.get("cluster") is None or hint.get("cluster") in clusters]
        return self._event(seen) if seen else b""


class Word(bytes):
    """A ready event for everybody, of whatever scope."""


REREAD = Word(b"event: reread\ndata: {}\n\n")
DEAF = Word(b"event: deaf\ndata: {}\n\n")
END = Word(b"event: end\ndata: {}\n\n")
Item = Batch | Word


class Hub:
    def __init__(self, url: str) -> None:
        self.url = url
        self.queues: set[asyncio.Queue[Item]] = set()
        self.deaf = False
        self._pump: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        self._lately: dict[What, tuple[float, Hint]] = {}
        self._knows_since = float("inf")

    @contextlib.asynccontextmanager
    async def listen(self, age: float = 0.0) -> AsyncIterator[asyncio.Queue[Item]]:
        """What is told from now on, first what a page of that `age` in seconds has missed."""
        queue: asyncio.Queue[Item] = asyncio.Queue(QUEUE)
        self.queues.add(queue)
        if self._pump is None or self._pump.done():
            self._pump = asyncio.create_task(self._run(), name="live-hub")
        try:
            await self._tried.wait()
            if self.deaf:
                queue.put_nowait(DEAF)
            elif age and (missed := self._since(_now() - age - ON_ITS_WAY)):
                queue.put_nowait(missed)
            yield queue
        finally:
            self.queues.discard(queue)

    def close(self) -> None:
        self._tell(END)
        self._tried.set()
        if self._pump is not None:
            self._pump.cancel()

    def _since(self, start: float) -> Item | None:
        """What was told since then, as one; the word to read all again where that is not known any more."""
        if start < self._knows_since:
            return REREAD
        hints = [hint for at, hint in self._lately.values() if at >= start]
        return Batch(hints, b"missed") if hints else None

    def _tell(self, item: Item) -> None:
        if isinstance(item, Batch):
            self._remember(item)
        for queue in self.queues:
            if queue.full():
                while not queue.empty():
                    queue.get_nowait()
                queue.put_nowait(REREAD)
            queue.put_nowait(item)

    def _remember(self, batch: Batch) -> None:
        now = _now()
        if len(self._lately) + len(batch.hints) > LATELY:
            self._lately.clear()
            self._knows_since = now
        self._lately.update({what: (now, hint) for what, hint in _by_what(batch.hints).items()})

    async def _run(self) -> None:
        pause = 0.5
        while True:
            try:
                await self._subscribed()
            except (redis.RedisError, OSError) as error:
                if not self.deaf:
                    log.warning("live hints are not heard: %s", error)
                    self.deaf = True
                    self._tell(DEAF)
                self._tried.set()
            await asyncio.sleep(pause)
            pause = min(5.0, pause * 2) if self.deaf else 0.5

    async def _subscribed(self) -> None:
        client = redis.asyncio.Redis.from_url(self.url, socket_connect_timeout=2, health_check_interval=15)
        async with client, client.pubsub(ignore_subscribe_messages=True) as channel:
            await channel.subscribe(HINT_CHANNEL)
            await channel.get_message(timeout=2)  # the word that it is done: from here on nothing is missed
            self._knows_since = _now()
            self._tried.set()
            if self.deaf:
                self.deaf = False
                self._tell(REREAD)
            while True:
                first = await channel.get_message(timeout=10)
                if first is None:
                    await channel.ping()
                    continue
                await asyncio.sleep(BATCH_SECONDS)
                hints = _decode(first)
                while (more := await channel.get_message(timeout=0)) is not None:
                    hints += _decode(more)
                if hints:
                    self._tell(Batch(hints))


def _now() -> float:
    return asyncio.get_running_loop().time()


def _decode(message: dict[str, Any]) -> list[Hint]:
    if message.get("type") != "message":
        return []
    try:
        hints = orjson.loads(message["data"])
    except orjson.JSONDecodeError:
        return []
    return [hint for hint in hints if isinstance(hint, dict)] if isinstance(hints, list) else []


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}


def hub() -> Hub:
    """The hub of the running loop; the first call also ties it to the signals that stop the server."""
    loop = asyncio.get_running_loop()
    found = _hubs.get(loop)
    if found is None:
        for stale in [known for known in _hubs if known.is_closed()]:
            del _hubs[stale]
        found = _hubs[loop] = Hub(settings.REDIS_URL)
        _close_on_signal(loop, found)
    return found


def _close_on_signal(loop: asyncio.AbstractEventLoop, target: Hub) -> None:
    """The server waits for open responses before it stops, so the streams must hear of the signal first."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)

        def handler(signum: int, frame: Any, before: Any = before) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(target.close)
            if callable(before):
                before(signum, frame)

        if callable(before):
            signal.signal(number, handler)
