"""When things happen: one wall clock and one heap of timed acts, sped up by a factor.

It decides when a planned act runs. It refuses to tick: nothing runs per node and per second; what is not planned
costs nothing. Time stamps are always real UTC; only durations are divided by the speed.
"""

import asyncio
import sys
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache

Act = Callable[[], None]


@lru_cache(maxsize=4096)
def stamp(second: int) -> str:
    """The API's time format, to the second."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(moment: float) -> str:
    """The finer format that Leases use."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Timeline:
    """Plans acts on the running event loop, whose timer heap does the waiting."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self.started_at = time.time()

    def now(self) -> float:
        return time.time()

    def stamp(self) -> str:
        return stamp(int(time.time()))

    def after(self, seconds: float, act: Act) -> asyncio.TimerHandle:
        """Run act after that many simulated seconds."""
        return self.real_after(seconds / self.speed, act)

    def real_after(self, seconds: float, act: Act) -> asyncio.TimerHandle:
        """Run act after that many seconds of the wall clock, whatever the speed."""
        return asyncio.get_running_loop().call_later(seconds, self._run, act)

    @staticmethod
    def _run(act: Act) -> None:
        try:
            act()
        except Exception:  # a broken act must not stop the data centre, and must not hide either
            traceback.print_exc(file=sys.stderr)
