"""Scrapes of a cluster's exporters, spread over the interval, on the observer's event loop.

Decides when each exporter is asked and what its failure is called in words. All are asked at once after the start, so
that a restart is blind for seconds only; then whoever has waited longest is next, but those that failed last time share
half of the places, so that a dead rack delays nobody else. Refuses bodies without end, an exporter that takes longer
than most of its interval, and to fetch what cannot be read yet: at most AT_ONCE answers are on their way or waiting,
however many exporters there are. All writes into the frame happen in this loop's thread, one text in a turn of it.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import aiohttp

from fleet.observer.session import Session
from fleet.observer.world import Exporter
from fleet.telemetry.intake import Intake
from fleet.telemetry.targets import Target

log = logging.getLogger(__name__)
AT_ONCE, SICK_AT_ONCE = 128, 64
FIRST_ROUND_SECONDS = 2.0
MAX_BODY = 32 * 1024 * 1024
TICK = 0.2
EAGER_TRIES, EAGER_SECONDS = 20, 1.0


class BadAnswer(Exception):
    """An answer that is no exposition text; the sentence says why."""


@dataclass(slots=True)
class _Due:
    exporter: Exporter
    target: Target
    at: float
    offset: float
    busy: bool = False
    sick: bool = False  # busy in a place of those that failed last time
    tried: bool = False
    eager: int = 0  # how many more failures are followed up at once


_Queue = list[tuple[float, int, _Due]]  # a heap by time; an entry whose time is not its exporter's any more is void


@dataclass(slots=True)
class Scraper:
    """`exporters` tells what there is now; `version` changes when that does."""

    session: Session
    intake: Intake
    exporters: Callable[[], Mapping[tuple[str, str], Exporter]]
    version: Callable[[], int]
    ready: Callable[[], bool]
    counts: Counter[str] = field(default_factory=Counter)
    round_done: bool = False
    _due: dict[tuple[str, str], _Due] = field(default_factory=dict)
    _version: int = -1
    _client: aiohttp.ClientSession | None = None
    _well: _Queue = field(default_factory=list)
    _sick: _Queue = field(default_factory=list)  # those that failed last time
    _trying: int = 0  # how many of the sick are being asked
    _number: Iterator[int] = field(default_factory=itertools.count)
    _reading: asyncio.Lock = field(default_factory=asyncio.Lock)  # a pushed line waits for one text, not for sixty
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self) -> None:
        """Until the session ends."""
        async with self._open():
            while not self.session.stopping():
                if self.ready():
                    self._refresh()
                    self._start_due()
                    if not self.round_done and self._due:
                        self.round_done = all(due.tried for due in self._due.values())
                await asyncio.sleep(TICK)
            for task in self._tasks:
                task.cancel()

    async def once(self) -> None:
        """Every exporter one time."""
        async with self._open():
            self._refresh()
            dues = iter(list(self._due.values()))

            async def some() -> None:
                for due in dues:
                    await self._scrape(due)

            await asyncio.gather(*(some() for _ in range(AT_ONCE)))
            self.round_done = True

    @contextlib.asynccontextmanager
    async def _open(self) -> AsyncIterator[None]:
        seconds = max(1.0, min(10.0, 0.8 * self.session.interval))
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=min(3.0, seconds))
        connector = aiohttp.TCPConnector(limit=AT_ONCE, limit_per_host=0, ttl_dns_cache=60)
        headers = {"Accept": "text/plain; version=0.0.4", "User-Agent": "muster"}
        async with aiohttp.ClientSession(connector=connector, timeout=timeout, headers=headers) as self._client:
            yield

    def _refresh(self) -> None:
        version = self.version()
        if version == self._version:
            return
        self._version = version
        wanted = self.exporters()
        for key in self._due.keys() - wanted.keys():
            del self._due[key]
            self.intake.frame.drop_target(*key)
        mono, interval = self.session.clock.monotonic(), self.session.interval
        fresh = [key for key in wanted if key not in self._due]
        for number, key in enumerate(fresh):
            share = number / len(fresh)
            target = self.intake.frame.target(*key, interval, mono)
            first = mono + share * min(FIRST_ROUND_SECONDS, interval)
            due = self._due[key] = _Due(wanted[key], target, first, share * interval)
            self._line_up(due)
        for key, exporter in wanted.items():
            self._due[key].exporter = exporter
            self._due[key].target.runs_in(exporter.pod)

    def _line_up(self, due: _Due) -> None:
        queue = self._sick if due.target.failures else self._well
        heapq.heappush(queue, (due.at, next(self._number), due))

    def _start_due(self) -> None:
        """As many as there are places for. A place that becomes free is given away at once."""
        mono = self.session.clock.monotonic()
        while len(self._tasks) < AT_ONCE and (due := self._next(self._well, mono)):
            self._start(due, mono)
        while len(self._tasks) < AT_ONCE and self._trying < SICK_AT_ONCE and (due := self._next(self._sick, mono)):
            self._trying += 1
            due.sick = True
            self._start(due, mono)

    def _next(self, queue: _Queue, mono: float) -> _Due | None:
        while queue and queue[0][0] <= mono:
            at, _, due = heapq.heappop(queue)
            if not due.busy and due.at == at and self._due.get((due.target.node, due.target.job)) is due:
                return due
        return None

    def _start(self, due: _Due, mono: float) -> None:
        interval = self.session.interval
        due.busy = True
        spread = 0.0 if due.tried else due.offset  # after the first round, spread over the interval
        due.at = max(due.at + interval + spread, mono + 0.5 * interval)
        task = asyncio.create_task(self._scrape(due))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self.session.stopping():
            self._start_due()

    async def _scrape(self, due: _Due) -> None:
        clock, target, where = self.session.clock, due.target, due.exporter
        try:
            began = clock.monotonic()
            body = await self._get(where.url)
            mono, wall = clock.monotonic(), clock.now().timestamp()
            async with self._reading:
                await self.session.way.give_in_loop()
                self.counts["samples"] += self.intake.scraped(target, body, mono, wall, mono - began)
                self.counts["scraped"] += 1
                await asyncio.sleep(0)
        except TimeoutError:
            self.intake.failed(target, f"{where.job} on {where.node} did not answer in time.")
        except (aiohttp.ClientError, OSError, BadAnswer, ValueError) as error:
            self.intake.failed(target, f"{where.job} on {where.node}: {_said(error)}.")
        except Exception:
            log.exception("the answer of %s on %s could not be taken", where.job, where.node)
            self.intake.failed(target, f"{where.job} on {where.node}: its answer could not be taken.")
        finally:
            self._trying -= due.sick
            due.busy, due.sick, due.tried = False, False, True
            if not target.failures:
                due.eager = 0
            elif due.eager:
                due.eager -= 1
                due.at = clock.monotonic() + EAGER_SECONDS
            self._line_up(due)

    async def _get(self, url: str) -> bytes:
        assert self._client is not None  # noqa: S101 - only called within _open
        async with self._client.get(url, allow_redirects=False) as response:
            if response.status != 200:
                raise BadAnswer(f"answered HTTP {response.status}")
            parts: list[bytes] = []
            size = 0
            async for part in response.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > MAX_BODY:
                    raise BadAnswer(f"answered more than {MAX_BODY >> 20} MiB")
            return b"".join(parts)

    def hurry(self, nodes: Iterable[str]) -> None:
        """These nodes have just booted: somebody waits for a word of their exporters. In the loop's thread."""
        wanted = set(nodes)
        for due in self._due.values():
            if due.exporter.node in wanted:
                due.at, due.eager = self.session.clock.monotonic(), EAGER_TRIES
                if not due.busy:
                    self._line_up(due)

    def failing(self) -> list[Target]:
        """Exporters whose last answer was none."""
        return [due.target for due in self._due.values() if due.target.failures]

    def total(self) -> int:
        return len(self._due)


def _said(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error.strerror or "cannot be reached" if error.os_error else "cannot be reached"
    return (str(error) or type(error).__name__).splitlines()[0][:200]
