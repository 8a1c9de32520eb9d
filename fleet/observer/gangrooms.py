"""The room of each node, from what it advertises and what the pods on it ask for.

Decides when the arrays are built anew (nodes came, went or changed labels) and when one row is enough. Refuses to know
the reasons why a node is out: they are given; a cordon or a node that is not ready is out by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from fleet.gangs.diagnosis.rooms import Out, Room, Rooms
from fleet.gangs.diagnosis.tiers import levels_of
from fleet.gangs.roster import Roster, Used
from fleet.ports.cluster import NodeSeen
from fleet.ports.gangs import Domain, Offer

_NOTHING = Used()
SLURM_ONLY = ("muster.dev/slurm", "", "NoSchedule")  # no pod tolerates it, and jobs of Slurm all taints


class RoomBook:
    def __init__(self) -> None:
        self._rooms: Rooms | None = None
        self._seen: dict[str, NodeSeen] = {}
        self._outs: dict[str, Out] = {}
        self._offers: tuple[Offer, ...] = ()
        self._domains: tuple[Domain, ...] = ()
        self._levels: Mapping[str, Mapping[str, str]] = {}

    def rooms(self, nodes: Mapping[str, NodeSeen], roster: Roster, outs: Mapping[str, Out]) -> Rooms:
        """`outs`: nodes that Muster or somebody keeps out, by name. Rows of unchanged nodes are not touched."""
        offers = tuple(offer for one in roster.offers.values() for offer in one)
        changed = {name for name, seen in nodes.items() if self._seen.get(name) is not seen}
        changed |= roster.changed_nodes & nodes.keys()
        changed |= {name for name in {*outs, *self._outs} if outs.get(name) != self._outs.get(name)} & nodes.keys()
        roster.changed_nodes.clear()
        same = self._rooms is not None and self._seen.keys() == nodes.keys() and self._offers == offers
        if self._moved(roster.domains(), nodes, changed):
            same = False
        self._seen, self._outs, self._offers = dict(nodes), dict(outs), offers
        offered = {offer.node: offer for offer in offers}

        def room(name: str) -> Room:
            used, levels = roster.used.get(name, _NOTHING), self._levels.get(name)
            found = room_of(nodes[name], used, outs.get(name), offered.get(name), levels)
            return lent_to_slurm(found, offered.get(name)) if offers and _is_lent(nodes[name], used) else found

        if same and self._rooms is not None:
            fresh = (room(name) for name in changed)
            if all(self._rooms.put(one) for one in fresh):
                return self._rooms
        found = {name: room(name) for name in nodes}
        for offer in offers:
            if offer.node not in found:
                found[offer.node] = room_offered(offer, outs.get(offer.node))
        self._rooms = Rooms(found.values())
        return self._rooms

    def _moved(self, domains: tuple[Domain, ...], nodes: Mapping[str, NodeSeen], changed: Iterable[str]) -> bool:
        """Whether nodes may lie in other domains of the network than before; then they are found anew."""
        alike = self._seen.keys() == nodes.keys() and all(
            nodes[name].labels == self._seen[name].labels for name in changed
        )
        if domains == self._domains and (alike or not domains):
            return False
        self._domains = domains
        self._levels = levels_of(domains, {name: seen.labels for name, seen in nodes.items()})
        return True


def room_of(
    seen: NodeSeen, used: Used, out: Out | None, offer: Offer | None = None, levels: Mapping[str, str] | None = None
) -> Room:
    """`offer`: what a scheduler with books of its own says of the same node. Its partitions count as labels, and so do
    the `levels` of a network's tree."""
    if out is None and offer is not None and offer.out:
        out = Out("cordoned", offer.out)
    if out is None and seen.unschedulable:
        out = Out("cordoned")
    if out is None and seen.ready is not True:
        out = Out("not_ready", seen.ready_reason, seen.ready_since)
    left = None if seen.cpu_millis is None else seen.cpu_millis - used.cpu_millis
    memory = None if seen.memory_mib is None else seen.memory_mib - used.memory_mib
    whole = dict(seen.allocatable)
    if seen.gpu_capacity is not None and len(whole) == 1:
        (name,) = whole
        whole[name] = max(whole[name], seen.gpu_capacity)
    return Room(
        seen.name,
        gpus=seen.allocatable,
        used=tuple(sorted(used.devices.items())),
        whole=tuple(sorted(whole.items())),
        cpu_left=left,
        memory_left=memory,
        labels=_labels(seen, offer, levels or {}),
        taints=seen.taints,
        out=out,
    )


def _is_lent(seen: NodeSeen, used: Used) -> bool:
    """Pods that are nodes of Slurm have all of its GPUs."""
    has = [(name, count) for name, count in seen.allocatable if count]
    return bool(has) and all(used.lent[name] >= count for name, count in has)


def lent_to_slurm(room: Room, offer: Offer | None) -> Room:
    """A node whose GPUs are in Slurm's books alone: what it gave to a pod of Slurm counts once, where Slurm tells it.
    Under another name there is a room of Slurm's beside this one, which then has no GPUs."""
    if offer is None:
        return replace(room, gpus=(), whole=(), used=())
    there = room_offered(offer, room.out)
    return replace(there, labels=room.labels, taints=(*room.taints, *there.taints))


def room_offered(offer: Offer, out: Out | None) -> Room:
    """A node that only a scheduler with books of its own tells of."""
    if out is None and offer.out:
        out = Out("cordoned", offer.out)
    return Room(
        offer.node,
        gpus=(("nvidia.com/gpu", offer.gpus),),
        used=(("nvidia.com/gpu", offer.gpus_used),) if offer.gpus_used else (),
        whole=(("nvidia.com/gpu", offer.gpus),),
        cpu_left=offer.cpu_millis - offer.cpu_millis_used,
        cpu_used=offer.cpu_millis_used,
        memory_left=offer.memory_mib - offer.memory_mib_used,
        labels=_partitions(offer),
        taints=(SLURM_ONLY,),
        out=out,
    )


def _labels(seen: NodeSeen, offer: Offer | None, levels: Mapping[str, str]) -> Mapping[str, str]:
    partitions = {} if offer is None else _partitions(offer)
    return {**seen.labels, **partitions, **levels} if partitions or levels else seen.labels


def _partitions(offer: Offer) -> dict[str, str]:
    return {f"partition/{name}": "" for name in offer.partitions}
