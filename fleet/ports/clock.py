"""Where time comes from.

Decides nothing; gives every rule, guard and step one injected source of aware UTC time, so that tests can move it and
a stepped system clock can be noticed (wall against monotonic). Refuses naive datetimes.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Wall time for records, monotonic time for durations."""

    def now(self) -> datetime:
        """Aware UTC wall time."""
        ...

    def monotonic(self) -> float:
        """Seconds that never step, of unknown origin."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


SYSTEM_CLOCK = SystemClock()
