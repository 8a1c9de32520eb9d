"""A line between Muster and the API server that can be cut while everything else answers.

Decides how a cut looks from this side: refused (nobody listens, open connections are reset) or silent (connections are
accepted and no byte moves any more). What was sent into a silent line arrives when it heals, as late as that is.
Refuses to read what passes.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

REFUSED, SILENT = "refused", "silent"
Pair = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Line:
    """A relay on a port of its own; `address` is where Muster is told that the API server is."""

    def __init__(self, server: str) -> None:
        target = urlsplit(server)
        self._target = (str(target.hostname), int(target.port or 80))
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="line", daemon=True)
        self._flows = asyncio.Event()
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()
        self._do(self._listen())
        self.mend()

    def stop(self) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def cut(self, kind: str) -> None:
        self._do(self._refuse() if kind == REFUSED else self._silence())

    def mend(self) -> None:
        self._do(self._mend())

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", self.port, backlog=2048)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _silence(self) -> None:
        self._flows.clear()

    async def _refuse(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._open):
            writer.transport.abort()

    async def _end(self) -> None:
        await self._refuse()
        relays = asyncio.all_tasks() - {asyncio.current_task()}
        for relay in relays:
            relay.cancel()
        await asyncio.gather(*relays, return_exceptions=True)

    async def _mend(self) -> None:
        if self._server is None:
            await self._listen()
        self._flows.set()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            await self._flows.wait()
            there = await asyncio.open_connection(*self._target)
            self._open.add(there[1])
            await asyncio.gather(self._pump(reader, there[1]), self._pump(there[0], writer))
            self._open.discard(there[1])
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()
            self._open.discard(writer)

    async def _pump(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while part := await source.read(1 << 16):
                await self._flows.wait()
                sink.write(part)
                await sink.drain()
        with contextlib.suppress(OSError, RuntimeError):
            sink.write_eof()


def rewired(kubeconfig: Path, address: str, to: Path) -> str:
    """The same credential for another address; the path of the copy."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["server"] = address
    to.write_text(yaml.safe_dump(document))
    return str(to)


@contextlib.contextmanager
def line_to(server: str) -> Iterator[Line]:
    line = Line(server)
    line.start()
    try:
        yield line
    finally:
        line.stop()
