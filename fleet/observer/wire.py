"""The HTTP connection of the push port, within bounds that hold before anybody is known.

Decides how long a request's head may be and take, how many bytes a request may have on the wire with all its framing,
and how many connections there may be: three quarters of the descriptors, so that scrapes, the database and the watches
keep theirs. Refuses more by ending the connection; what a body may hold is the push application's affair.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fleet.observer.push import MAX_BODY

MAX_HEAD = 64 * 1024
HEAD_SECONDS = 15.0
MAX_WIRE = 4 * MAX_BODY  # a chunked body has up to three bytes of framing for each of its own


def most_connections() -> int:
    return max(64, resource.getrlimit(resource.RLIMIT_NOFILE)[0] * 3 // 4)


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `_seen` counts the bytes of the request that is being received."""

    _seen = 0
    _in_head = True
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > most_connections():
            self._end(b"503 Service Unavailable", "too many connections")
        else:
            self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._seen += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._seen > MAX_HEAD:
            self._end(b"431 Request Header Fields Too Large", "the head of the request is too long")
        elif self._seen > MAX_WIRE:
            self._end(b"413 Content Too Large", "the request is too long")

    def on_message_begin(self) -> None:
        self._in_head = True
        if self._late is None:
            self._wait_for_head()
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._in_head:  # trailers mean nothing here
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._stop_waiting()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._seen = 0
        super().on_message_complete()

    def _wait_for_head(self) -> None:
        said = "the head of the request did not arrive in time"
        self._late = self.loop.call_later(HEAD_SECONDS, self._end, b"408 Request Timeout", said)

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self, status: bytes, text: str) -> None:
        self._stop_waiting()
        if self.transport.is_closing():
            return
        body = b'{"error":"' + text.encode() + b'"}'
        lines = [b"HTTP/1.1 " + status, b"content-type: application/json", b"connection: close", b"retry-after: 1"]
        lines += [b"content-length: %d" % len(body), b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()
