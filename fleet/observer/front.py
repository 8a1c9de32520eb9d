"""The event loop of the observer: scrapes and the push server, in one thread.

Decides the port (the wanted one, else the next free), whether it speaks TLS and to whom, and when it is told: the
address file appears once the server listens. Refuses to end the observer because of one of them: what fails is logged
and started again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
import uvloop

from fleet.observer.push import Push
from fleet.observer.runfiles import publish
from fleet.observer.scraping import Scraper
from fleet.observer.session import Session
from fleet.observer.wire import BoundedProtocol

log = logging.getLogger(__name__)
PORTS_TRIED = 100


def listen(host: str, wanted: int) -> socket.socket:
    """A listening socket on the wanted port or the next free one."""
    for port in range(wanted, min(wanted + PORTS_TRIED, 65536)):
        listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(1024)
        except OSError:
            listener.close()
            continue
        listener.setblocking(False)
        return listener
    raise OSError(f"no free port from {wanted} to {wanted + PORTS_TRIED - 1} on {host}")


@dataclass(frozen=True, slots=True)
class Tls:
    """Files of the push port's certificate and key, and of the authorities whose clients alone may connect."""

    cert: str = ""
    key: str = ""
    clients: str = ""

    def __post_init__(self) -> None:
        if (self.key or self.clients) and not self.cert:
            raise ValueError("A key or client authorities of the push port need a certificate: MUSTER_PUSH_TLS_CERT.")

    def options(self) -> dict[str, Any]:
        """For uvicorn."""
        if not self.cert:
            return {}
        given = {"ssl_certfile": self.cert, "ssl_keyfile": self.key or None}
        return {**given, "ssl_ca_certs": self.clients, "ssl_cert_reqs": ssl.CERT_REQUIRED} if self.clients else given


PLAIN = Tls()


class Front:
    def __init__(
        self, session: Session, push: Push, scraper: Scraper, listener: socket.socket, tls: Tls = PLAIN
    ) -> None:
        self._session, self._push, self._scraper, self._listener = session, push, scraper, listener
        self._tls = tls
        self.loop: asyncio.AbstractEventLoop | None = None
        self.beside: list[Callable[[], Awaitable[None]]] = []  # what else runs in the loop until the session ends
        self._server: uvicorn.Server | None = None

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def url(self) -> str:
        host = self._listener.getsockname()[0]
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104
        scheme = "https" if self._tls.cert else "http"
        return f"{scheme}://[{host}]:{self.port}" if ":" in host else f"{scheme}://{host}:{self.port}"

    def start(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name="front", daemon=True)
        thread.start()
        return thread

    def call(self, work: Callable[[], None]) -> None:
        """Run `work` in the loop's thread, where the frame is written."""
        if self.loop is not None and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(work)

    def _run(self) -> None:
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._main())
        except Exception:
            log.exception("the event loop ended")
            self._session.end("The event loop ended.")

    async def _main(self) -> None:
        self.loop = asyncio.get_running_loop()
        config = uvicorn.Config(
            self._push,
            lifespan="off",
            http=BoundedProtocol,
            ws="none",
            access_log=False,
            log_config=None,
            log_level="warning",
            timeout_keep_alive=30,
            timeout_graceful_shutdown=1,
            server_header=False,
            **self._tls.options(),
        )
        self._server = uvicorn.Server(config)
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        working = [asyncio.create_task(self._keep(work)) for work in (self._scraper.run, *self.beside)]
        while not self._server.started and not serving.done():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        publish(self._session.run_dir / f"observer-{self._session.name}.url", self.url)
        while not self._session.stopping():  # noqa: ASYNC110 - a thread's event, set by other threads
            await asyncio.sleep(0.1)
        self._server.should_exit = True
        for task in working:
            task.cancel()
        await asyncio.wait([serving, *working], timeout=2)

    async def _keep(self, work: Callable[[], Awaitable[None]]) -> None:
        while not self._session.stopping():
            try:
                await work()
            except Exception:
                log.exception("%s failed; it goes on", getattr(work, "__qualname__", "a part of the loop"))
                await asyncio.sleep(1)
