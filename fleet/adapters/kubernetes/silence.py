"""Whether an API server answers at all, remembered from one call to the next.

Decides that, once a call has got no answer, one caller at a time asks again and all others are refused at once, unsent:
the threads of a worker serve other clusters too and must not hang, one after the other, at a server known to be silent.
Refuses to judge answers: a 500 or a 401 is one, and ends the silence.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from fleet.adapters.kubernetes.errors import NO_ANSWER, Call
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import PortError, TemporaryError

ASK_EVERY = 3.0
ASKING_AT_MOST = 60.0
"""A caller that was let through and never said what came of it keeps the others out for no longer than this."""
SOONEST, LATEST = 3.0, 20.0
"""Seconds after which a refused caller should come again: a sixth of the silence so far, within these bounds."""


class Silence:
    """Of one server and credential, shared by all threads of a process."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: datetime | None = None
        self._began = self._next = 0.0
        self._why = ""

    @contextmanager
    def asking(self, call: Call) -> Iterator[None]:
        """One exchange. TemporaryError, before anything is sent, while the server is silent and not to be asked yet."""
        began = time.monotonic()
        self._admit(call, began)
        try:
            yield
        except PortError as error:
            if error.code in NO_ANSWER:
                self._fell_silent(error, began)
            else:
                self._next = 0.0  # neither an answer nor silence: the next caller finds out
            raise
        self._since = None

    def _admit(self, call: Call, now: float) -> None:
        with self._lock:
            if self._since is None:
                return
            if now >= self._next:
                self._next = now + ASKING_AT_MOST
                return
            again = min(max(SOONEST, (now - self._began) / 6), LATEST)
            text = (
                f"{call.server} has not answered since {self._since:%H:%M:%S} UTC and is asked again every few seconds"
            )
            raise TemporaryError(f"{text}: {self._why}", code="api_unreachable", retry_after=again)

    def _fell_silent(self, error: PortError, began: float) -> None:
        with self._lock:
            now = time.monotonic()
            self._next = now + ASK_EVERY
            if self._since is None:
                self._since, self._began = self._clock.now() - timedelta(seconds=now - began), began
                self._why = str(error)
