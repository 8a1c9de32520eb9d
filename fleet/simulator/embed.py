"""A simulated fleet inside a test's process: real HTTP, in a thread of its own.

It decides that tests get quick time and a private folder. It refuses to outlive the `with` block.
"""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from fleet.simulator.options import Options
from fleet.simulator.server import Simulator, _loop_factory


@contextmanager
def running(options: Options) -> Iterator[Simulator]:
    """The fleet, reachable at its .address; its .options hold the tokens."""
    up = threading.Event()
    failure: list[BaseException] = []
    simulator = Simulator(options, lambda _: up.set())

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(simulator.run())
        except BaseException as problem:
            failure.append(problem)
        finally:
            up.set()

    thread = threading.Thread(target=work, name="simulator", daemon=True)
    thread.start()
    up.wait(30)
    if failure:
        raise failure[0]
    try:
        yield simulator
    finally:
        simulator.stop()
        thread.join(5)
