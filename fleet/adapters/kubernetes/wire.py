"""Cutting a connection from outside: the only way to end a blocked read when the peer is silent.

Decides when a connection is cut (the caller's stop, or a deadline for the whole exchange). Refuses to wait for the
peer's consent: the socket is shut down under the reader, which then sees an ended stream.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

POLL_SECONDS = 0.2
_here = threading.local()


class Cutter:
    """Within the `with` block, the followed connection is shut down once `stop()` is true or time is up."""

    def __init__(self, stop: Callable[[], bool], deadline_seconds: float | None = None) -> None:
        self._stop = stop
        self._ends_at = None if deadline_seconds is None else time.monotonic() + deadline_seconds
        self._over = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._guard, name="stream-cutter", daemon=True)

    def __enter__(self) -> Cutter:
        self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()

    @contextlib.contextmanager
    def following(self) -> Iterator[None]:
        """Requests that this thread sends inside are the ones to cut. Never yield to a consumer inside."""
        _here.cutter = self
        try:
            yield
        finally:
            _here.cutter = None

    def follow(self, connected: Any) -> None:
        self._socket = connected

    def patience(self, seconds: float) -> None:
        """How long the followed connection may stay silent from now on."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.settimeout(seconds)

    def _guard(self) -> None:
        while not self._over.wait(POLL_SECONDS):
            if self._stop() or (self._ends_at is not None and time.monotonic() > self._ends_at):
                self._cut()

    def _cut(self) -> None:
        current = self._socket
        if current is not None:
            # An SSLSocket's own shutdown drops its TLS state under the reader; the plain one only wakes it.
            with contextlib.suppress(OSError, ValueError):
                socket.socket.shutdown(current, socket.SHUT_RDWR)


class _Followed:
    """Mixed into a connection class: tells the thread's cutter which socket carries the request."""

    sock: Any

    def request(self, *args: Any, **kwargs: Any) -> None:
        cutter: Cutter | None = getattr(_here, "cutter", None)
        if cutter is not None and self.sock is not None:
            cutter.follow(self.sock)
        super().request(*args, **kwargs)  # type: ignore[misc]
        if cutter is not None:
            cutter.follow(self.sock)


class _PlainConnection(_Followed, HTTPConnection):
    pass


class _TlsConnection(_Followed, HTTPSConnection):
    pass


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _PlainConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


def track_connections(pool_manager: Any) -> None:
    """Let cutters find the sockets of this pool manager."""
    pool_manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _TlsPool}
