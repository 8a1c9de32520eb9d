"""How the free GPUs lie: how many members of a size fit, per domain, and what better packing would give.

Decides by whole devices on nodes that are in service. Refuses to advise moves: it shows what is lost to scatter, and
who would gain is what the what-if tells. "Scattered" for a size is the share of free GPUs that no member of that size
can use: 0 when all of them can, 1 when none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Ints, Rooms

SIZES = (1, 2, 4, 8)
"""GPUs of one member: the sizes that jobs ask for (Philly trace: nearly all are powers of two up to a node)."""


@dataclass(frozen=True, slots=True)
class Domain:
    name: str
    nodes: int  # in service
    free_gpus: int
    slots: tuple[int, ...]  # members that fit, by SIZES


@dataclass(frozen=True, slots=True)
class Scatter:
    resource: str
    free_gpus: int
    total_gpus: int
    partly_used: int  # nodes in service with some GPUs free and some used
    slots: tuple[int, ...]
    packed_slots: tuple[int, ...]  # if all that runs were packed onto as few nodes as it needs
    domains: tuple[Domain, ...]
    histogram: tuple[tuple[int, int], ...]  # (free GPUs of a node, nodes)

    def scattered(self, size: int) -> float:
        usable = size * self.slots[SIZES.index(size)]
        return 0.0 if not self.free_gpus else 1 - usable / self.free_gpus


def scatter(rooms: Rooms, space: Space, level: str, resource: str = "nvidia.com/gpu") -> Scatter:
    """`level` is the label key of the domains (rack, leaf, NVLink domain); nodes without it are one domain named ""."""
    n = len(rooms.names)
    free = np.where(space.usable, np.maximum(space.gpus.get(resource, np.zeros(n, np.int64)), 0), 0)
    total = np.where(space.usable, rooms.capacity.get(resource, np.zeros(n, np.int64)), 0)
    of, names = rooms.domains(level)
    fit = np.stack([free // size for size in SIZES]) if n else np.zeros((len(SIZES), 0), np.int64)
    domains = []
    for number, name in [*enumerate(names), (-1, "")]:
        inside = (of == number) & (total > 0)
        if inside.any():
            slots = tuple(int(row[inside].sum()) for row in fit)
            domains.append(Domain(name, int(inside.sum()), int(free[inside].sum()), slots))
    counts, nodes = np.unique(free[total > 0], return_counts=True)
    return Scatter(
        resource=resource,
        free_gpus=int(free.sum()),
        total_gpus=int(total.sum()),
        partly_used=int(((free > 0) & (free < total)).sum()),
        slots=tuple(int(row.sum()) for row in fit),
        packed_slots=tuple(_packed(free, total, size) for size in SIZES),
        domains=tuple(domains),
        histogram=tuple((int(gpus), int(many)) for gpus, many in zip(counts, nodes, strict=True)),
    )


def _packed(free: Ints, total: Ints, size: int) -> int:
    """Slots of a size when the used GPUs fill whole nodes, the smallest nodes first."""
    used, slots = int((total - free).sum()), 0
    for node in np.sort(total[total > 0]):
        taken = min(used, int(node))
        used -= taken
        slots += (int(node) - taken) // size
    return slots


def whole_nodes(rooms: Rooms, space: Space, resource: str) -> tuple[int, int]:
    """Nodes in service that nothing uses: as they are, and if all that runs were packed onto as few as it needs."""
    n = len(rooms.names)
    free = np.where(space.usable, space.gpus.get(resource, np.zeros(n, np.int64)), 0)
    total = np.where(space.usable, rooms.capacity.get(resource, np.zeros(n, np.int64)), 0)
    there = total > 0
    sizes = np.sort(total[there])
    needed = int(np.searchsorted(np.cumsum(sizes), int((total - free).sum()), side="left"))
    used = needed + 1 if (total - free).sum() > 0 else 0
    return int(((free == total) & there).sum()), max(0, len(sizes) - used)
