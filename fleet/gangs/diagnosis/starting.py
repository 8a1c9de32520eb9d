"""Whether a gang could start in an imagined world, and what that world looks like after it has.

Decides by the members that it lacks of its minimum, those inside one topology domain that require one; members of their
roles that are placed already name the domain. What requires none (a head) lies wherever there is room. Refuses a
level that no node is labelled with, and members that have devices by claims alone: its scheduler's own words count
there, and the arithmetic says nothing (`judged` is False).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import numpy as np

from fleet.gangs.diagnosis.eligibility import Eligibility
from fleet.gangs.diagnosis.packing import Ask, Bounded, Space, bounded, fit, fits, place, put
from fleet.gangs.diagnosis.rooms import Mask, Rooms
from fleet.gangs.form import Gang
from fleet.ports.gangs import Need, Topology


def _hidden(need: Need | None) -> bool:
    """What it needs is not known, or not all of it: a claim of a device beside a GPU (a channel) does not matter."""
    return need is None or (need.claims > 0 and not need.gpus)


class Starter:
    def __init__(self, rooms: Rooms, before: Eligibility | None = None) -> None:
        """`before`: masks that were found for the same rooms."""
        self.rooms = rooms
        self.eligibility = Eligibility(rooms, before)

    def asks(self, gang: Gang) -> list[Ask]:
        return [(missing.need, missing.count) for missing in gang.missing if missing.need is not None]

    def judged(self, gang: Gang) -> bool:
        """Whether the arithmetic can speak of it at all."""
        if not gang.missing or any(_hidden(missing.need) for missing in gang.missing):
            return False
        level = level_of(gang)
        return not level or bool(self.rooms.values(level))

    def could(self, gang: Gang, space: Space, *, anywhere: bool = False) -> bool:
        """`anywhere`: as if it required no topology."""
        asks = self.asks(gang)
        if anywhere or not level_of(gang):
            return fits(space, asks, self.eligibility)
        return any(fit(space, self.inside(gang, domain)) for _, domain in self.domains(gang, space))

    def start(self, gang: Gang, space: Space) -> Space | None:
        """The world after its start, None where it does not fit."""
        asks = self.asks(gang)
        if not level_of(gang):
            return place(space, asks, self.eligibility)
        for _, domain in self.domains(gang, space):
            after = put(space, self.inside(gang, domain))
            if after is not None:
                return after
        return None

    def inside(self, gang: Gang, domain: Mask) -> list[Bounded]:
        """What it asks for, with the nodes that each may use when the rest of it comes to that domain."""
        bound = [(m.need, m.count) for m in gang.missing if m.need is not None and m.bound]
        free = [(m.need, m.count) for m in gang.missing if m.need is not None and not m.bound]
        return bounded(bound, self.eligibility, domain) + bounded(free, self.eligibility)

    def like(self, gang: Gang) -> Hashable:
        """The same for gangs that the arithmetic cannot tell from each other."""
        asks = tuple((m.need, m.count, m.bound) for m in gang.missing)
        return (asks, level_of(gang), self.pinned(gang)) if level_of(gang) else asks

    def domains(self, gang: Gang, space: Space) -> Iterator[tuple[str, Mask]]:
        """Domains that may hold it, the fullest that does first; by the largest need alone, which all must hold."""
        of, names = self.rooms.domains(level_of(gang))
        pinned = self.pinned(gang)
        asks = [(m.need, m.count) for m in gang.missing if m.need is not None and m.bound]
        need, count = max(asks, key=lambda ask: ask[0].gpus * ask[1])
        slots = space.slots(need, self.eligibility.of(need))
        inside = of >= 0
        totals = np.bincount(of[inside], weights=slots[inside], minlength=len(names)).astype(np.int64)
        for domain in np.argsort(totals, kind="stable"):
            if totals[domain] >= count and (not pinned or pinned == {int(domain)}):
                yield names[domain], of == domain

    def pinned(self, gang: Gang) -> frozenset[int]:
        """The domains, by number, in which members of it stand already."""
        of, _ = self.rooms.domains(level_of(gang))
        said = topologies(gang)
        bound = {role for role, topology in said.items() if topology is not None and topology.required}
        unnamed = "" in bound
        nodes = {
            m.node
            for m in gang.members
            if m.node and not m.ending and (m.role in bound or (unnamed and m.role not in said))
        }
        return frozenset(int(of[n]) for n in self.rooms.places(nodes) if of[n] >= 0)

    def free_gpus(self, gang: Gang, space: Space) -> int:
        """GPUs that are free on nodes it may use, however they lie."""
        need, _ = max(self.asks(gang), key=lambda ask: ask[0].gpus)
        free = space.gpus.get(need.resource)
        return 0 if free is None else int(np.maximum(free, 0)[self.eligibility.of(need) & space.usable].sum())


def level_of(gang: Gang) -> str:
    """The topology level that its missing members must share, "" for none."""
    return next((m.topology.level for m in gang.missing if m.topology and m.bound), "")


def topologies(gang: Gang) -> dict[str, Topology | None]:
    """By role, as its objects say it; what they say of the role "" holds for those that are not named."""
    return {part.role: part.topology for one in reversed(gang.objects) for part in one.parts}
