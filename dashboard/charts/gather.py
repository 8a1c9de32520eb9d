"""A gang as one bar: placed, room for more now, missing to its minimum, and a mark where the minimum lies.

Decides geometry and markup; it is joined here because a template over forty members and twenty-five gangs costs most of
the page. Refuses to say why: the sentence beside it does. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

WIDTH = 400.0
CUTS_UP_TO = 40  # members that are told apart by a line


@dataclass(frozen=True, slots=True)
class Gather:
    """Lengths in the bar's own units. `idle`: what is placed does nothing."""

    placed: float
    idle: bool
    could: float  # room for it now
    need: float  # missing to the minimum and without room
    mark: float
    cuts: tuple[float, ...]
    text: str

    @property
    def svg(self) -> SafeString:
        parts = ['<path class="g" d="M0 4h400v10H0z"/>']
        if self.placed:
            parts.append(f'<path class="{"i" if self.idle else "f"}" d="M0 4h{self.placed:g}v10H0z"/>')
        if self.could:
            parts.append(f'<path class="av" d="M{self.placed:g} 4h{self.could:g}v10h-{self.could:g}z"/>')
        if self.cuts:
            parts.append(f'<path class="cut" d="{"".join(f"M{cut:g} 4v10" for cut in self.cuts)}"/>')
        if self.need:
            wide = max(1.0, self.need - 1.5)
            at = self.placed + self.could + 0.75
            parts.append(f'<path class="need" d="M{at:g} 4.75h{wide:g}v8.5h-{wide:g}z"/>')
        parts.append(f'<path class="m" d="M{self.mark:g} 0v18"/>')
        label = f'role="img" aria-label="{escape(self.text)}"'
        head = f'<svg class="gather" viewBox="0 0 400 18" preserveAspectRatio="none" {label}>'
        return SafeString(f"{head}{''.join(parts)}</svg>")


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
        could=round(could * unit, 2),
        need=round(need * unit, 2),
        mark=round(min(WIDTH - 0.5, minimum * unit), 2),
        cuts=tuple(round(n * unit, 2) for n in range(1, whole)) if 1 < whole <= CUTS_UP_TO else (),
        text=text,
    )
