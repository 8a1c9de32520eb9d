"""Who goes first in the interpreter: a fatal line, before everything that computes.

Decides that whoever computes for long asks between two portions of its work whether a line is under way, and if so
waits until it is committed. A commit is some thirty short turns in the interpreter; beside three threads that compute
each turn has to be fought for, alone none has. Refuses to starve anybody: nobody waits longer than MOST at once nor for
more than half of its time, so a storm of lines slows the others down and stops none. Refuses to wait within a
transaction: the line may be waiting for its locks.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator

from django.db import connection

from fleet.ports.clock import Clock

MOST = 0.25
"""Seconds that one gives way at once; four times what a line takes."""
LOOK_EVERY = 0.004
"""Seconds between two looks of the event loop, which must not block."""


class RightOfWay:
    """Shared by the threads of one observer. One of them, the lane's, takes it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = threading.Event()
        self._free.set()
        self._mine = threading.local()  # `until`: before that time this thread has given way enough

    @contextlib.contextmanager
    def taken(self) -> Iterator[None]:
        """While a line is judged and committed."""
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def give(self) -> None:
        """Wait for a line that is under way. Costs nothing where none is."""
        if self._free.is_set() or connection.in_atomic_block:
            return
        began = self._begin()
        if began is not None:
            self._free.wait(MOST)
            self._end(began)

    async def give_in_loop(self) -> None:
        """The same for a task of the event loop, which goes on meanwhile: it brings the line and takes its answer."""
        if self._free.is_set():
            return
        began = self._begin()
        if began is not None:
            while not self._free.is_set() and self._clock.monotonic() - began < MOST:  # noqa: ASYNC110 - set by a thread
                await asyncio.sleep(LOOK_EVERY)
            self._end(began)

    def _begin(self) -> float | None:
        """Now; None for a thread that still has to make up for the last time."""
        now = self._clock.monotonic()
        return now if now >= getattr(self._mine, "until", float("-inf")) else None

    def _end(self, began: float) -> None:
        now = self._clock.monotonic()
        self._mine.until = now + (now - began)
