"""A gang as one bar: placed, room for more now, missing to its minimum, and a mark where the minimum lies.

Decides the geometry. Refuses to say why: the sentence beside it does. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

WIDTH = 400.0
CUTS_UP_TO = 40  # members that are told apart by a line


@dataclass(frozen=True, slots=True)
class Gather:
    """Lengths in the bar's own units. `idle`: what is placed does nothing."""

    placed: float
    idle: bool
    could_from: float
    could: float  # room for it now
    need_from: float
    need: float  # missing to the minimum and without room
    mark: float
    cuts: tuple[float, ...]
    text: str


def gather(placed: int, minimum: int, wanted: int, could_now: int = 0, *, idle: bool, waits: bool) -> Gather:
    """`could_now` members of those that it lacks would fit now. One that does not wait misses nothing."""
    whole = max(wanted, minimum, placed, 1)
    unit = WIDTH / whole
    could = max(0, min(could_now, minimum - placed))
    need = max(0, minimum - placed - could) if waits else 0
    text = _("%(placed)s placed, min %(minimum)s, wanted %(wanted)s") % {
        "placed": f"{placed:,}", "minimum": f"{minimum:,}", "wanted": f"{wanted:,}",
    }  # fmt: skip
    return Gather(
        placed=round(placed * unit, 2),
        idle=idle,
        could_from=round(placed * unit, 2),
        could=round(could * unit, 2),
        need_from=round((placed + could) * unit + 0.75, 2) if need else 0,
        need=round(max(1.0, need * unit - 1.5), 2) if need else 0,
        mark=round(min(WIDTH - 0.5, minimum * unit), 2),
        cuts=tuple(round(n * unit, 2) for n in range(1, whole)) if 1 < whole <= CUTS_UP_TO else (),
        text=text,
    )
