"""Is a stream in which nothing happens quiet, or dead?

Decides that an open stream without a word is not believed for ever: the server is asked a small question beside it,
and without an answer the stream counts as dead, minutes before its own end. Refuses to doubt a server that answers,
whatever it says: a quiet cluster has quiet streams.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from fleet.adapters.kubernetes.errors import NO_ANSWER
from fleet.ports.errors import PortError, TemporaryError


class Doubt:
    """`dead` is asked by the thread that watches over the stream, `heard` and `confirmed` by the one that reads it."""

    def __init__(self, quiet: float, ask: Callable[[], object]) -> None:
        self._quiet, self._ask = quiet, ask
        self._heard_at = time.monotonic()
        self._error: PortError | None = None

    def heard(self) -> None:
        self._heard_at = time.monotonic()

    def dead(self) -> bool:
        if self._error is None and time.monotonic() - self._heard_at >= self._quiet:
            try:
                self._ask()
            except PortError as error:
                if error.code in NO_ANSWER:
                    self._error = error
            self.heard()
        return self._error is not None

    def confirmed(self) -> None:
        """Raises what the question came to, if the stream was ended for it."""
        if self._error is not None:
            raise TemporaryError(str(self._error), code=self._error.code) from self._error
