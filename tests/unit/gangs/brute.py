"""What would fit, found by trying every way: the plainest oracle that there is, for clusters of a handful of nodes.

It decides by the words of the documents alone and shares no line with the arithmetic that it is held against. A member
goes to a node or it does not; who is first in line and has any way to lie beside those before it, starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

GPU = "nvidia.com/gpu"
OTHER = "nvidia.com/mig-3g.40gb"
LEVEL = "rack"


@dataclass(frozen=True)
class Wants:
    """One member. `key` is a label that its node must have, `tolerates` the key of a taint that it bears."""

    gpus: int = 0
    cpu: int = 0
    memory: int = 0
    resource: str = GPU
    key: str = ""
    tolerates: str = ""
    whole_node: bool = False
    in_domain: bool = False  # with all others of its gang that are


@dataclass
class Node:
    name: str
    gpus: int = 8
    whole: int = 8
    used: int = 0
    cpu: int | None = None  # what is left
    memory: int | None = None
    resource: str = GPU
    label: str = ""
    taint: str = ""
    rack: str = ""
    out: bool = False
    members: list[tuple[str, Wants]] = field(default_factory=list)  # gang and member, of those that `used` counts
    ending: set[str] = field(default_factory=set)  # gangs whose member here is being deleted: it holds, and counts not

    def counted(self, gang: str) -> list[Wants]:
        return [wants for name, wants in self.members if name == gang and name not in self.ending]


@dataclass
class Waiting:
    name: str
    queue: str
    priority: int
    age: int  # minutes after the beginning at which it was made
    wants: list[Wants]
    by_room: bool = True


@dataclass(frozen=True)
class Left:
    """What a node has left in one imagined world."""

    gpus: int
    cpu: int | None
    memory: int | None
    empty: bool
    closed: bool = False


World = tuple[Left, ...]


def world(nodes: Sequence[Node], back: Sequence[str] = (), gone: Sequence[str] = (), without: str = "") -> World:
    """With nodes back in service and whole, with nodes gone, or without the members of a gang."""
    found = []
    for node in nodes:
        theirs = [wants for gang, wants in node.members if gang == without]
        there = max(node.gpus, node.whole) if node.name in back else node.gpus
        used = node.used - sum(wants.gpus for wants in theirs if wants.resource == node.resource)
        others = len(node.members) - len(theirs)
        found.append(
            Left(
                gpus=max(0, there - used),
                cpu=None if node.cpu is None else node.cpu + sum(wants.cpu for wants in theirs),
                memory=None if node.memory is None else node.memory + sum(wants.memory for wants in theirs),
                empty=used == 0 and not others,
                closed=(node.out and node.name not in back) or node.name in gone,
            )
        )
    return tuple(found)


def after(node: Node, left: Left, wants: Wants) -> Left | None:
    """The node with one member more, None where it may not or cannot go there."""
    if left.closed or (wants.key and node.label != wants.key) or (node.taint and node.taint != wants.tolerates):
        return None
    if wants.whole_node and not left.empty:
        return None
    if wants.gpus and (node.resource != wants.resource or left.gpus < wants.gpus):
        return None
    if left.cpu is not None and left.cpu < wants.cpu:
        return None
    if left.memory is not None and left.memory < wants.memory:
        return None
    return Left(
        left.gpus - wants.gpus,
        None if left.cpu is None else left.cpu - wants.cpu,
        None if left.memory is None else left.memory - wants.memory,
        empty=False,
        closed=wants.whole_node,
    )


Held = dict[str, set[str]]  # gang -> racks in which members of it lie that must share one


def exists(nodes: Sequence[Node], here: World, gangs: Sequence[Waiting], held: Held) -> bool:
    """Whether all these gangs have room at once."""
    dead: set[tuple[int, World]] = set()

    def from_gang(n: int, space: World) -> bool:
        if n == len(gangs):
            return True
        if (n, space) in dead:
            return False
        found = any(from_gang(n + 1, rest) for rest in ways(nodes, space, gangs[n], held.get(gangs[n].name, set())))
        if not found:
            dead.add((n, space))
        return found

    return from_gang(0, here)


def ways(nodes: Sequence[Node], space: World, gang: Waiting, held: set[str]) -> Iterator[World]:
    """Every world after its start, each once."""
    bound = any(wants.in_domain for wants in gang.wants)
    domains = sorted({node.rack for node in nodes if node.rack and held <= {node.rack}}) if bound else [""]
    seen: set[World] = set()
    for domain in domains:
        states = {space}
        for wants in gang.wants:
            states = {
                (*state[:n], left, *state[n + 1 :])
                for state in states
                for n, node in enumerate(nodes)
                if not wants.in_domain or node.rack == domain
                if (left := after(node, state[n], wants)) is not None
            }
        yield from states - seen
        seen |= states


def line(gangs: Sequence[Waiting]) -> list[Waiting]:
    """The next of all queues' first ones, again and again: higher priority, then older, then by name."""
    queues: dict[str, list[Waiting]] = {}
    for gang in sorted(gangs, key=_rank):
        queues.setdefault(gang.queue, []).append(gang)
    found = []
    while queues:
        queue = min(queues, key=lambda name: _rank(queues[name][0]))
        found.append(queues[queue].pop(0))
        if not queues[queue]:
            del queues[queue]
    return found


def _rank(gang: Waiting) -> tuple[int, int, str]:
    return -gang.priority, gang.age, gang.name


def starts(nodes: Sequence[Node], here: World, gangs: Sequence[Waiting], strict: set[str], held: Held) -> list[str]:
    """Who starts, in the order of the queues."""
    started: list[Waiting] = []
    stopped: set[str] = set()
    for gang in line(gangs):
        if gang.queue in stopped:
            continue
        if gang.by_room and exists(nodes, here, [*started, gang], held):
            started.append(gang)
        elif gang.queue in strict:
            stopped.add(gang.queue)
    return [gang.name for gang in started]
