"""Runs a simulated fleet: one socket, one event loop, files for the clients, a quick end.

It decides the order of start and stop. It refuses to start with options or a scenario that cannot work, and says why.
"""

import asyncio
import contextlib
import gc
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

import uvicorn

from fleet.simulator import files
from fleet.simulator.options import Options
from fleet.simulator.scenarios import ScenarioError, load
from fleet.simulator.sockets import PortTaken, listen
from fleet.simulator.web import Cut, Receive, Request, Response, Send, read_request, send_response, send_until_gone
from fleet.simulator.world import World


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers and without its ten wake-ups a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.up = asyncio.Event()
        self.stop_asked = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        self.up.set()
        await self.stop_asked.wait()


class Simulator:
    """One fleet. run() blocks in the event loop until stop() or a signal."""

    def __init__(self, options: Options, ready: Callable[["Simulator"], None] | None = None) -> None:
        self.options = options
        self.ready = ready
        self.address = ""
        self.world: World | None = None
        self._server: _Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self) -> None:
        scenario = load(self.options.scenario)
        sock = listen(self.options.port)
        port = sock.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        self._loop = asyncio.get_running_loop()
        files.keep_tokens(self.options)
        self.world = World(self.options, scenario, port)
        self.world.begin()
        config = uvicorn.Config(
            self._app,
            interface="asgi3",
            http="httptools",
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=1,
        )
        self._server = _Server(config)
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._loop.add_signal_handler(number, self._stop)
        serving = asyncio.ensure_future(self._server.serve(sockets=[sock]))
        await asyncio.wait(
            {serving, asyncio.ensure_future(self._server.up.wait())}, return_when=asyncio.FIRST_COMPLETED
        )
        files.write(self.options, self.address, list(self.world.hosts.values()))
        if self.ready is not None:
            self.ready(self)
        try:
            await serving
        finally:
            files.forget(self.options)

    def stop(self) -> None:
        """From any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        if self.world is not None:
            self.world.stop()
        if self._server is not None:
            self._server.should_exit = True
            self._server.stop_asked.set()

    async def _app(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            request = await read_request(scope, receive)
            if request.gone:
                return
            response = await self._answer(request)
            if response.stream is not None:
                await send_until_gone(response, receive, send)
            else:
                await send_response(response, send)
        except Cut:
            return  # the response stays unfinished: the server breaks the connection
        except Exception:
            traceback.print_exc(file=sys.stderr)
            raise

    async def _answer(self, request: Request) -> Response:
        path = request.path
        if self.world is None:
            return Response(503)
        if path.startswith(("/nodes/", "/fabric/")):
            return self.world.exporters.answer(path)
        if path.startswith(("/ufmRest/", "/ufm/")):
            return self.world.ufm.answer(request)
        if path.startswith("/bmc/"):
            return await self.world.bmcs.answer(request)
        if path.startswith("/ray/"):
            return self.world.stage.dashboards.answer(request)
        if path.startswith("/_sim/"):
            return self.world.control.answer(request)
        return await self.world.api.answer(request)


def serve(options: Options, say: Callable[[str], None], complain: Callable[[str], None]) -> int:
    """Run until told to stop; the exit code."""
    problems = options.problems()
    if problems:
        complain("\n".join(problems))
        return 2

    def ready(simulator: Simulator) -> None:
        gc.freeze()  # the fleet itself is no garbage: looking through it again and again would cost CPU for nothing
        say(f"simulator {options.name}: {options.nodes} nodes, scenario {options.scenario}, {simulator.address}")

    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(Simulator(options, ready).run())
    except (ScenarioError, PortTaken) as problem:
        complain(str(problem))
        return 1
    return 0


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop
