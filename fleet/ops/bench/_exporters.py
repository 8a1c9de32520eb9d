"""Exporters whose texts were written beforehand, so that a benchmark measures who reads them and not who writes them.

Decides what is answered: the text that the simulated exporter gave once, with the node's clock set to now in each
answer, because a clock that stands still is a fault. Counts what was answered: that is the load. Refuses anything but a
GET of a known path.

    python -m fleet.ops.bench._exporters PORT SIMULATOR_URL FILE, which names the paths, one a line
"""

from __future__ import annotations

import asyncio
import sys
import time
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import uvloop

CLOCK = b"\nnode_time_seconds "
COUNTED = "/answered"


@dataclass(frozen=True, slots=True)
class Text:
    """One answer: `rest` follows the clock's line, and is empty where the exporter tells no time."""

    head: bytes
    rest: bytes
    samples: int

    @classmethod
    def of(cls, text: bytes) -> Text:
        samples = sum(bool(line) and not line.startswith(b"#") for line in text.splitlines())
        at = text.find(CLOCK)
        if at < 0:
            return cls(text, b"", samples)
        end = text.index(b"\n", at + 1)
        return cls(text[: at + len(CLOCK)], text[end:], samples)

    def now(self) -> bytes:
        return b"%b%.3f%b" % (self.head, time.time(), self.rest) if self.rest else self.head


class Answers(asyncio.Protocol):
    """One connection, kept open. A request is a few hundred bytes and comes whole."""

    answered = 0

    def __init__(self, texts: dict[bytes, Text]) -> None:
        self._texts = texts
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None  # noqa: S101 - a connection was made before it brought anything
        path = data.split(b" ", 2)[1] if data.startswith(b"GET ") else b""
        if path == COUNTED.encode():
            body = b"%d %d" % (Answers.answered, sum(text.samples for text in self._texts.values()))
        elif path in self._texts:
            text = self._texts[path]
            body = text.now()
            Answers.answered += text.samples
        else:
            self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._transport.writelines([head, body])


def texts(simulator: str, paths: Iterable[str]) -> dict[bytes, Text]:
    """What each path answers now."""
    found: dict[bytes, Text] = {}
    for path in paths:
        with urllib.request.urlopen(simulator + path, timeout=30) as answer:  # noqa: S310
            found[path.encode()] = Text.of(answer.read())
    return found


async def serve(port: int, found: dict[bytes, Text]) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Answers(found), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    mine = texts(sys.argv[2], Path(sys.argv[3]).read_text().split())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(int(sys.argv[1]), mine))
