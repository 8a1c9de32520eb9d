"""Waiting for what another process or thread does.

Decides one patience for all tests: far more than anything needs, because a wait that comes true costs only what it took
and a busy machine is no fault. Refuses bounds that measure the machine: `left_in_time` only tells a wait that was left
from one that was sat out; how fast something is, the benchmarks say.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

Found = TypeVar("Found")
PATIENCE = 60.0  # seconds
SAT_OUT = 20.0  # what the fake servers of these tests keep a caller waiting who does not leave


def until(holds: Callable[[], Found], seconds: float = PATIENCE, every: float = 0.02) -> Found:
    """What `holds()` says once that is true in the sense of `if`. An AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"it did not come true within {seconds:g} s"
        time.sleep(every)
    return found


@contextlib.contextmanager
def left_in_time() -> Iterator[None]:
    """The body ended long before the other side would have let go."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < SAT_OUT / 2
