"""The pages' clock.

Decides that every page reads one injected source of time. Refuses to be read by the domain, whose clock is an argument.
"""

from __future__ import annotations

from datetime import datetime

from fleet.ports.clock import SYSTEM_CLOCK, Clock

_clock: Clock = SYSTEM_CLOCK


def now() -> datetime:
    return _clock.now()


def use(clock: Clock) -> None:
    """Tests set the time that the pages see."""
    global _clock
    _clock = clock
