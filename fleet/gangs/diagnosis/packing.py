"""Whether members fit into rooms.

Decides exactly for members of one kind (a division per node) and for two or more kinds by putting the greedier first,
then, where that fails and the case is small, by looking at all ways to share the nodes. Refuses to promise what it
could not find: a "no" of a large mixed case may be wrong, a "yes" never is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from fleet.gangs.diagnosis.eligibility import Eligibility
from fleet.gangs.diagnosis.rooms import ENOUGH, Ints, Mask, Rooms
from fleet.ports.gangs import Need

EXACT_STATES = 200_000  # nodes times ways to share them: about a tenth of a second
Ask = tuple[Need, int]  # that many members of that need
Bounded = tuple[Need, int, Mask]  # the same with the nodes that they may use


@dataclass(slots=True)
class Space:
    """What is free in one imagined world. `take` changes it: copy it first for another what-if."""

    gpus: dict[str, Ints]
    cpu: Ints
    memory: Ints
    idle: Mask
    usable: Mask

    @classmethod
    def now(cls, rooms: Rooms) -> Space:
        free = {name: column.copy() for name, column in rooms.free.items()}
        return cls(free, rooms.cpu.copy(), rooms.memory.copy(), rooms.idle.copy(), rooms.usable.copy())

    @classmethod
    def emptied(cls, rooms: Rooms) -> Space:
        """Every node in service, whole and without work; CPU and memory are not judged."""
        n, total = len(rooms.names), {name: column.copy() for name, column in rooms.capacity.items()}
        plenty, yes = np.full(n, ENOUGH, np.int64), np.ones(n, np.bool_)
        return cls(total, plenty, plenty.copy(), yes, yes.copy())

    def copy(self) -> Space:
        gpus = {name: column.copy() for name, column in self.gpus.items()}
        return Space(gpus, self.cpu.copy(), self.memory.copy(), self.idle.copy(), self.usable.copy())

    def returned(self, rooms: Rooms, places: Sequence[int] | Mask) -> Space:
        """The same with those nodes back in service and whole."""
        space = self.copy()
        space.usable[places] = True
        for name, column in rooms.whole.items():
            taken = rooms.free[name] - self.gpus[name]  # what this world has given away already
            space.gpus[name][places] = (column - taken)[places]
        return space

    def only(self, place: int) -> Space:
        one = slice(place, place + 1)
        gpus = {name: column[one].copy() for name, column in self.gpus.items()}
        return Space(
            gpus, self.cpu[one].copy(), self.memory[one].copy(), self.idle[one].copy(), self.usable[one].copy()
        )

    def without(self, places: Sequence[int] | Mask) -> Space:
        space = self.copy()
        space.usable[places] = False
        return space

    def slots(self, need: Need, eligible: Mask) -> Ints:
        """How many members fit on each node."""
        fits = np.full(len(self.cpu), ENOUGH, np.int64)
        if need.gpus:
            free = self.gpus.get(need.resource)
            fits = np.zeros_like(fits) if free is None else free // need.gpus
        if need.cpu_millis:
            fits = np.minimum(fits, self.cpu // need.cpu_millis)
        if need.memory_mib:
            fits = np.minimum(fits, self.memory // need.memory_mib)
        if need.whole_node:
            fits = np.where(self.idle, np.minimum(fits, 1), 0)
        return np.where(eligible & self.usable, np.maximum(fits, 0), 0)

    def take(self, need: Need, counts: Ints) -> None:
        if need.gpus and need.resource in self.gpus:
            self.gpus[need.resource] -= counts * need.gpus
        self.cpu -= counts * need.cpu_millis
        self.memory -= counts * need.memory_mib
        self.idle &= counts == 0
        if need.whole_node:
            self.usable &= counts == 0


def fits(space: Space, asks: Sequence[Ask], eligibility: Eligibility) -> bool:
    """Whether all asks fit at once. `space` stays as it is."""
    return fit(space, bounded(asks, eligibility))


def place(space: Space, asks: Sequence[Ask], eligibility: Eligibility) -> Space | None:
    """What is left when all asks have their room, or None where they do not fit."""
    return put(space, bounded(asks, eligibility))


def bounded(asks: Sequence[Ask], eligibility: Eligibility, within: Mask | None = None) -> list[Bounded]:
    """With the nodes that each may use, `within` (a topology domain) where that is given."""
    return [
        (need, count, eligibility.of(need) if within is None else eligibility.of(need) & within)
        for need, count in asks
        if count > 0
    ]


def fit(space: Space, asks: Sequence[Bounded]) -> bool:
    if len(asks) == 1:
        need, count, mask = asks[0]
        return int(space.slots(need, mask).sum()) >= count
    return put(space, asks) is not None


def put(space: Space, asks: Sequence[Bounded]) -> Space | None:
    left = space.copy()
    for need, count, mask in sorted(asks, key=lambda ask: (-ask[0].gpus, -ask[0].cpu_millis)):
        slots = left.slots(need, mask)
        if int(slots.sum()) < count:
            return _exactly(space, asks) if len(asks) > 1 else None
        left.take(need, _fullest_first(slots, count))
    return left


def _fullest_first(slots: Ints, count: int) -> Ints:
    """Fill nodes with the fewest slots first, so that the roomy ones stay whole for who needs them."""
    order = np.argsort(np.where(slots > 0, slots, ENOUGH), kind="stable")
    before = np.concatenate(([0], np.cumsum(slots[order])[:-1]))
    counts = np.zeros_like(slots)
    counts[order] = np.minimum(slots[order], np.maximum(0, count - before))
    return counts


Way = tuple[int, ...]  # how many of each kind
Shares = tuple[tuple[int, Way], ...]  # node and way, for the nodes looked at so far


def _exactly(space: Space, asks: Sequence[Bounded]) -> Space | None:
    """Every way to share each node among the kinds, by what is still to place; only for small cases."""
    slots = np.stack([space.slots(need, mask) for need, _, mask in asks])
    wanted = tuple(count for _, count, _ in asks)
    nodes = np.flatnonzero(slots.any(axis=0))
    if not _hope(space, asks, slots, nodes)(wanted):
        return None
    if len(nodes) * int(np.prod([count + 1 for count in wanted], dtype=np.float64)) > EXACT_STATES:
        return None
    left: dict[Way, Shares] = {wanted: ()}
    known: dict[tuple[object, ...], set[Way]] = {}  # nodes with equal room are shared in equal ways
    for turn, node in enumerate(map(int, nodes)):
        after = _hope(space, asks, slots, nodes[turn + 1 :])
        here, allowed = space.only(node), [bool(mask[node]) for _, _, mask in asks]
        room = (*(int(c[0]) for c in (*here.gpus.values(), here.cpu, here.memory, here.idle)), *allowed)
        if room not in known:
            known[room] = _ways(here, asks, allowed)
        ways = known[room]
        grown: dict[Way, Shares] = {}
        for rest, shares in left.items():
            for way in ways:
                to_place = tuple(max(0, n - k) for n, k in zip(rest, way, strict=True))
                if after(to_place):
                    grown.setdefault(to_place, (*shares, (node, way)))
        left = {rest: grown[rest] for rest in _least(grown)}
        done = next((shares for rest, shares in left.items() if not any(rest)), None)
        if done is not None:
            return _shared(space, asks, done)
    return None


def _hope(space: Space, asks: Sequence[Bounded], slots: Ints, nodes: Ints) -> Callable[[Way], bool]:
    """Whether the nodes that are still to come could hold so many of each kind at all; else it is not followed."""
    most = slots[:, nodes].sum(axis=1).tolist()
    names = {need.resource for need, _, _ in asks if need.gpus}
    free = {name: int(np.maximum(space.gpus[name][nodes], 0).sum()) if name in space.gpus else 0 for name in names}

    def could(rest: Way) -> bool:
        if any(n > m for n, m in zip(rest, most, strict=True)):
            return False
        asked = dict.fromkeys(names, 0)
        for n, (need, _, _) in zip(rest, asks, strict=True):
            if need.gpus:
                asked[need.resource] += n * need.gpus
        return all(asked[name] <= free[name] for name in names)

    return could


def _shared(space: Space, asks: Sequence[Bounded], shares: Shares) -> Space:
    left, to_place = space.copy(), [count for _, count, _ in asks]
    for node, way in shares:
        for kind, (need, _, _) in enumerate(asks):
            counts = np.zeros(len(space.cpu), np.int64)
            counts[node] = min(way[kind], to_place[kind])
            to_place[kind] -= int(counts[node])
            left.take(need, counts)
    return left


def _ways(here: Space, asks: Sequence[Bounded], allowed: Sequence[bool], kind: int = 0) -> set[Way]:
    """All fullest shares of one node (a space of one)."""
    if kind == len(asks):
        return {()}
    need, count, _ = asks[kind]
    found: set[Way] = set()
    for n in range(min(int(here.slots(need, np.array([allowed[kind]]))[0]), count), -1, -1):
        rest = here.copy()
        rest.take(need, np.array([n]))
        found |= {(n, *way) for way in _ways(rest, asks, allowed, kind + 1)}
    return {way for way in found if not any(other != way and _covers(other, way) for other in found)}


def _least(states: Iterable[Way]) -> list[Way]:
    """Without those that leave as much or more of every kind as another one."""
    kept: list[Way] = []
    for state in sorted(states, key=sum):
        if not any(_covers(state, other) for other in kept):
            kept.append(state)
    return kept


def _covers(more: Way, less: Way) -> bool:
    return all(a >= b for a, b in zip(more, less, strict=True))
