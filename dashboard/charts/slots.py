"""The free GPUs as a histogram over nodes, and the free slots of each domain as bars.

Decides geometry. Refuses more domains than a person reads: the fullest of room come first. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from fleet.gangs.questions import Domain, Room

WIDTH, HEIGHT, GAP = 720.0, 120.0, 8.0
DOMAINS = 40


@dataclass(frozen=True, slots=True)
class Column:
    x: float
    y: float
    width: float
    height: float
    free: int
    nodes: int
    kind: str  # none free, a part, all of it

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Histogram:
    columns: tuple[Column, ...]
    text: str


def histogram(room: Room) -> Histogram:
    """A column for each number of free GPUs that a node has."""
    counts = dict(room.histogram)
    largest = max((*counts, 1))
    numbers = list(range(largest + 1)) if largest <= 16 else sorted(counts)
    most = max((*counts.values(), 1))
    width = (WIDTH - GAP * (len(numbers) - 1)) / len(numbers)
    columns = []
    for place, free in enumerate(numbers):
        nodes = counts.get(free, 0)
        height = HEIGHT * nodes / most
        kind = "none" if not free else "whole" if free == largest else "part"
        columns.append(
            Column(round(place * (width + GAP), 1), round(HEIGHT - height, 1), round(width, 1), round(height, 1),
                   free, nodes, kind)
        )  # fmt: skip
    told = _("%(free)s of %(total)s GPUs are free; %(part)s nodes are partly used.") % {
        "free": f"{room.free:,}", "total": f"{room.total:,}", "part": f"{room.partly_used:,}",
    }  # fmt: skip
    return Histogram(tuple(columns), told)


@dataclass(frozen=True, slots=True)
class DomainBar:
    domain: Domain
    width: float
    slots: tuple[tuple[int, int], ...]  # (size, members that fit)


def domain_bars(room: Room) -> list[DomainBar]:
    most = max((domain.free for domain in room.domains), default=0) or 1
    return [
        DomainBar(domain, round(200.0 * domain.free / most, 1), tuple(zip(room.sizes, domain.slots, strict=True)))
        for domain in room.domains[:DOMAINS]
    ]
