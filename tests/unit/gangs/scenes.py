"""Small clusters for the arithmetic: nodes with GPUs, some used, some out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.gangs.counting import count
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Out, Room, Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import Need, Part, Topology
from tests.gang_builders import FULL, an_object, later, members_of

GPU = "nvidia.com/gpu"
EIGHT = replace(FULL, cpu_millis=0, memory_mib=0)
OUT = Out("draining", "Xid 79", later(-30))


def a_room(node: str, used: int = 0, *, gpus: int = 8, whole: int = 8, out: Out | None = None, **facts: Any) -> Room:
    return Room(node, ((GPU, gpus),), ((GPU, used),) if used else (), ((GPU, whole),), out=out, **facts)


def a_scene(*rooms: Room) -> tuple[Starter, Space]:
    built = Rooms(rooms)
    return Starter(built), Space.now(built)


def a_gang(
    name: str, minimum: int, placed: int = 0, need: Need = EIGHT, *, topology: Topology | None = None, **facts: Any
) -> Gang:
    """Waiting for `minimum` members, `placed` of them there on nodes gpu-0, gpu-1, ..."""
    system = facts.pop("system", "volcano")
    part = Part("", minimum, need=need, topology=topology)
    group = an_object(system, name, minimum=minimum, wanted=minimum, parts=(part,), **facts)
    (joined,) = join(
        [group], [] if facts.get("suspended") else members_of(group.ref.key, placed, minimum - placed, need=need)
    ).values()
    return count(joined)
