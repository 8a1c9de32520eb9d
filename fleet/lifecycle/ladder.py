"""Which remedy comes next, by what has mended such faults before.

Decides the rung to begin with and the one after a failure, from measured repair effectiveness. Pure. Refuses to skip a
remedy on thin evidence (fewer than MIN_TRIES), to go down the ladder, and to skip the last rung.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIN_TRIES = 5
"""Four failures in a row do not rule out a remedy that works half of the time (6 %); five do (3 %)."""
POOR = 0.2
"""A remedy that mends fewer than one fault in five costs more time than it saves when a harsher one is at hand."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What became of a remedy: `tries` ended tries, of which `held` mended the fault and lasted a day."""

    tries: int
    held: int

    @property
    def rate(self) -> float | None:
        return self.held / self.tries if self.tries else None

    @property
    def poor(self) -> bool:
        return self.tries >= MIN_TRIES and self.held / self.tries < POOR


NOTHING = Effect(0, 0)


def first_rung(ladder: Sequence[str], effects: Mapping[str, Effect]) -> str:
    """The gentlest remedy that is not known to be in vain; the last one when all are."""
    return next((verb for verb in ladder[:-1] if not effects.get(verb, NOTHING).poor), ladder[-1])


def next_rung(ladder: Sequence[str], tried: str, effects: Mapping[str, Effect]) -> str:
    """The remedy after `tried` failed: the next one up that is not known to be in vain; the top rung is tried again."""
    above = ladder[ladder.index(tried) + 1 :] if tried in ladder else ladder[:0]
    return first_rung(above, effects) if above else tried
