"""Builders of what schedulers say: objects and members with sensible defaults, so that a test names what counts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fleet.ports.gangs import GangObject, Member, MemberState, Need, Ref, System, key_of
from tests.builders import T0

FULL = Need(gpus=8, cpu_millis=64_000, memory_mib=512 * 1024)
KINDS: dict[System, str] = {
    "ray": "RayCluster",
    "coscheduling": "PodGroup",
    "volcano": "PodGroup",
    "kai": "PodGroup",
    "native": "PodGroup",
    "kueue": "Workload",
    "jobset": "JobSet",
    "lws": "LeaderWorkerSet",
    "trainjob": "TrainJob",
    "kubeflow": "PyTorchJob",
    "slurm": "Job",
    "yunikorn": "Application",
}
PLACING = frozenset({"coscheduling", "volcano", "kai", "native", "kueue", "slurm", "yunikorn"})


def an_object(system: System, name: str, *, kind: str = "", namespace: str = "train", **facts: Any) -> GangObject:
    ref = Ref(system, kind or KINDS[system], namespace, name, facts.pop("uid", f"uid-{system}-{kind}-{name}"))
    facts.setdefault("created_at", T0)
    facts.setdefault("places", system in PLACING and kind in ("", KINDS[system]))
    return GangObject(ref, **facts)


def a_member(
    name: str,
    *links: str,
    node: str = "",
    state: MemberState | None = None,
    need: Need = FULL,
    namespace: str = "train",
    **facts: Any,
) -> Member:
    """Ready when it has a node, pending when it has none, unless told."""
    facts.setdefault("created_at", T0)
    return Member(
        key=f"{namespace}/{name}",
        uid=f"uid-{name}",
        node=node,
        state=state or ("ready" if node else "pending"),
        need=need,
        links=links,
        **facts,
    )


def members_of(
    link: str, placed: int, waiting: int = 0, *, nodes: str = "gpu", first: int = 0, **facts: Any
) -> list[Member]:
    """`placed` members, each on a node of its own, and `waiting` without one, of one gang."""
    name = link.rsplit("/", 1)[-1]
    links = facts.pop("links", (link,))
    there = [a_member(f"{name}-{n}", *links, node=f"{nodes}-{first + n}", **facts) for n in range(placed)]
    return there + [a_member(f"{name}-{placed + n}", *links, **facts) for n in range(waiting)]


def link_to(system: System, name: str, *, kind: str = "", namespace: str = "train") -> str:
    return key_of(system, kind or KINDS[system], namespace, name)


def later(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)
