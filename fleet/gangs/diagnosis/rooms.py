"""The room of every node as arrays: what is free now, and what would be free if the node came back whole.

Decides how labels and taints are looked up fast: an index from label to nodes, one class for each set of taints.
Refuses to know why a node is out; it carries the words along. Shapes: every array has one entry per node, in the order
of `names`; GPUs are whole devices, CPU in thousandths of a core, memory in MiB. What is free may be below 0: a node
that lost a GPU under a running member owes it, and has it not to give when that member ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]
Taint = tuple[str, str, str]  # key, value, effect
ENOUGH = 1 << 40  # a node that does not tell its CPUs or memory is not judged by them
OUT_PREFIXES = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
"""Taints that the cluster itself puts on a node that is cordoned, unready or under pressure: the node is out, and comes
back; they do not make it another kind of node."""


@dataclass(frozen=True, slots=True)
class Out:
    """Why a node takes no work now, who works on it, and when it is expected back (None: nobody knows)."""

    code: str  # cordoned, not_ready, unhealthy, draining, ...: the lifecycle's or the inventory's word
    text: str = ""
    since: datetime | None = None
    back_at: datetime | None = None
    workflow: int | None = None
    ticket: str = ""


@dataclass(frozen=True, slots=True)
class Room:
    """One node. `gpus` and `whole` are (resource, count): allocatable now, and when nothing of it is broken; `used` is
    what living pods ask for, by resource. CPU and memory are what is left; None where the node does not tell."""

    node: str
    gpus: tuple[tuple[str, int], ...]
    used: tuple[tuple[str, int], ...] = ()
    whole: tuple[tuple[str, int], ...] = ()
    cpu_left: int | None = None
    memory_left: int | None = None
    cpu_used: int = 0  # told where a member may ask for a whole node: work without GPUs stands in its way too
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    out: Out | None = None


class Rooms:
    """Built once per recompute; `put` replaces the row of one node. What-ifs work on copies of `free`, never on it."""

    def __init__(self, rooms: Iterable[Room]) -> None:
        self.rows = sorted(rooms, key=lambda room: room.node)
        self.names = [room.node for room in self.rows]
        self.index = {name: n for n, name in enumerate(self.names)}
        n = len(self.rows)
        self.resources = sorted({name for room in self.rows for name, _ in (*room.gpus, *room.whole)})
        self.free: dict[str, Ints] = {name: np.zeros(n, np.int64) for name in self.resources}
        self.whole: dict[str, Ints] = {name: np.zeros(n, np.int64) for name in self.resources}
        self.capacity: dict[str, Ints] = {name: np.zeros(n, np.int64) for name in self.resources}
        self.cpu = np.zeros(n, np.int64)
        self.memory = np.zeros(n, np.int64)
        self.idle = np.zeros(n, np.bool_)  # nothing that asks for GPUs runs there, nor anything else where that is told
        self.usable = np.zeros(n, np.bool_)
        for place, room in enumerate(self.rows):
            self._fill(place, room)
        self.touched: set[int] = set()  # rows replaced since whoever keeps answers took note
        self._index_labels()

    def put(self, room: Room) -> bool:
        """False when the node is new, or its labels or resources differ: then build anew."""
        place = self.index.get(room.node)
        if place is None:
            return False
        old = self.rows[place]
        known = all(name in self.free for name, _ in (*room.gpus, *room.whole))
        if not known or old.labels != room.labels or _kept(old.taints) != _kept(room.taints):
            return False
        self.rows[place] = room
        self._fill(place, room)
        self.touched.add(place)
        return True

    def _fill(self, place: int, room: Room) -> None:
        now, whole, used = dict(room.gpus), dict(room.whole), dict(room.used)
        for name in self.resources:
            taken, here = used.get(name, 0), now.get(name, 0)
            self.free[name][place] = here - taken
            self.capacity[name][place] = max(whole.get(name, 0), here)
            self.whole[name][place] = int(self.capacity[name][place]) - taken
        self.cpu[place] = ENOUGH if room.cpu_left is None else room.cpu_left
        self.memory[place] = ENOUGH if room.memory_left is None else room.memory_left
        self.idle[place] = not any(used.values()) and not room.cpu_used
        self.usable[place] = room.out is None

    def _index_labels(self) -> None:
        by_label: dict[tuple[str, str], list[int]] = {}
        by_key: dict[str, list[int]] = {}
        classes: dict[tuple[Taint, ...], int] = {}
        self.taint_class = np.zeros(len(self.rows), np.int64)
        for place, room in enumerate(self.rows):
            for key, value in room.labels.items():
                by_label.setdefault((key, value), []).append(place)
                by_key.setdefault(key, []).append(place)
            self.taint_class[place] = classes.setdefault(_kept(room.taints), len(classes))
        self._by_label = {label: np.array(places) for label, places in by_label.items()}
        self._by_key = {key: np.array(places) for key, places in by_key.items()}
        self._values: dict[str, set[str]] = {}
        for key, value in by_label:
            self._values.setdefault(key, set()).add(value)
        self.taint_classes = list(classes)
        self._domains: dict[str, tuple[Ints, list[str]]] = {}

    def labelled(self, key: str, value: str) -> Mask:
        return self._mask(self._by_label.get((key, value)))

    def having(self, key: str) -> Mask:
        return self._mask(self._by_key.get(key))

    def values(self, key: str) -> Set[str]:
        return self._values.get(key, frozenset())

    def domains(self, level: str) -> tuple[Ints, list[str]]:
        """The domain of each node at that level as a number, -1 for none, and the domains' names by number."""
        found = self._domains.get(level)
        if found is None:
            names = sorted(self.values(level))
            of = np.full(len(self.rows), -1, np.int64)
            for n, value in enumerate(names):
                of[self._by_label[level, value]] = n
            found = self._domains[level] = of, names
        return found

    def _mask(self, places: Ints | None) -> Mask:
        mask = np.zeros(len(self.rows), np.bool_)
        if places is not None:
            mask[places] = True
        return mask

    def places(self, nodes: Iterable[str]) -> list[int]:
        return [self.index[node] for node in nodes if node in self.index]


def _kept(taints: Sequence[Taint]) -> tuple[Taint, ...]:
    """The taints that say which kind of work a node is for: not the ones of a passing state, nor mere preferences."""
    return tuple(sorted(t for t in taints if not t[0].startswith(OUT_PREFIXES) and t[2] in ("NoSchedule", "NoExecute")))
