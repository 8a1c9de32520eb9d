"""The normal form of a gang: one shape for every scheduler, in which pages, rules and what-if speak.

Decides the counts that a gang is described by and the few states that follow from them. Refuses to know any system:
what is special to one lies in the objects that the gang carries along.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from fleet.ports.gangs import GangObject, Guarantee, Member, Need, Said, System, Topology

GangState = Literal["suspended", "waiting", "partial", "starting", "running", "finished", "empty"]
"""Nobody wants it to start now; none placed; some placed and fewer than its minimum; its minimum placed and not all of
those started; its minimum started; over; nothing of it is there and nothing asks for any (a group left over)."""
NOT_WANTED: frozenset[GangState] = frozenset({"finished", "suspended", "empty"})


@dataclass(frozen=True, slots=True)
class Missing:
    """`count` members of one kind that a gang lacks of its minimum. `need` None: no object and no pod tells it."""

    need: Need | None
    count: int
    role: str = ""
    topology: Topology | None = None

    @property
    def bound(self) -> bool:
        """They must share a domain with the others of the gang that must."""
        return self.topology is not None and self.topology.required


@dataclass(frozen=True, slots=True)
class Gang:
    """`key` is that of the object it is placed by (or the next best, `fleet.gangs.joining`), `title` what people call
    it. wanted = placed + not_created + gated + unscheduled, unless pods of an earlier attempt are still there."""

    key: str
    system: System
    kind: str
    namespace: str
    name: str
    title: str  # "RayJob llm-70b"
    owner: str
    queue: str
    priority: int
    state: GangState
    wanted: int
    minimum: int
    placed: int
    running: int
    ready: int
    not_created: int
    gated: int
    unscheduled: int
    gpus_per_member: int
    gpus_wanted: int
    gpus_held: int
    gpus_held_idle: int
    guarantee: Guarantee
    created_at: datetime | None
    waits_since: datetime | None  # None: it does not wait
    started_at: datetime | None
    nodes: tuple[str, ...]  # sorted
    missing: tuple[Missing, ...]
    said: tuple[Said, ...]  # of all its objects and waiting members, equal ones once
    objects: tuple[GangObject, ...]  # the placing one first, then towards what people made
    members: tuple[Member, ...]

    @property
    def called(self) -> str:
        """By what people made, and where: "RayJob train/llm-70b"."""
        return called_by(self.title, self.namespace)

    @property
    def waits(self) -> bool:
        return self.state in ("waiting", "partial")


def called_by(title: str, namespace: str) -> str:
    kind, _space, name = title.partition(" ")
    return f"{kind} {namespace}/{name}" if namespace else title
