"""How many nodes of a planned maintenance may begin now.

Decides from the window, the number that may be under way at once, and the failures so far: begin some, wait and say
until when, or pause for a person. Pure: no Django, no clock of its own. Refuses to begin a node outside the window,
beyond the number at once, and after too many failures; what is under way it leaves alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from fleet.policy.rules import ALLOWED, Decision
from fleet.policy.windows import Window


@dataclass(frozen=True, slots=True)
class Pace:
    """None: no such limit, or at any time."""

    at_once: int | None = None
    stop_after: int | None = None
    window: Window | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Nodes by how far they are. `forgiven` are failures that a person saw and went on after."""

    pending: int = 0
    begun: int = 0
    failed: int = 0
    forgiven: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """`room` nodes may begin. Without room `why` says what keeps the rest; `pauses` asks for a person."""

    room: int
    why: Decision = ALLOWED
    pauses: bool = False


def turn(pace: Pace, progress: Progress, now: datetime) -> Turn:
    if not progress.pending:
        return Turn(0)
    failures = progress.failed - progress.forgiven
    if pace.stop_after is not None and failures >= pace.stop_after:
        text = f"{_nodes(failures)} failed, and {pace.stop_after} stop it: look at them, then go on or cancel."
        return Turn(0, Decision("failures", text), pauses=True)
    closed = _closed(pace.window, progress.pending, now)
    if closed is not None:
        return closed
    if pace.at_once is None:
        return Turn(progress.pending)
    room = min(progress.pending, pace.at_once - progress.begun)
    if room > 0:
        return Turn(room)
    text = f"{progress.begun} of {pace.at_once} at once are under way; the next begins when one ends."
    return Turn(0, Decision("at_once", text))


def _closed(window: Window | None, pending: int, now: datetime) -> Turn | None:
    if window is None or window.until(now) is not None:
        return None
    start = window.next_start(now)
    if start is None:
        text = f"The window is over and does not come again; {_nodes(pending)} were not reached."
        return Turn(0, Decision("window", text), pauses=True)
    told = f"{start.astimezone(ZoneInfo(window.zone)):%Y-%m-%d %H:%M} {window.zone}"
    return Turn(0, Decision("window", f"Outside the window; it opens {told}.", start))


def _nodes(count: int) -> str:
    return "1 node" if count == 1 else f"{count} nodes"
