"""Ray gangs and looks at their dashboards, so that a test of a condition names only what counts."""

from __future__ import annotations

from typing import Any

from fleet.gangs.counting import count
from fleet.gangs.form import Gang
from fleet.gangs.joining import join
from fleet.ports.gangs import GangObject, Member
from fleet.ports.ray import PlacementGroup, RayFacts, RayGroup, RayJobSeen, RayNode, RayReading, TrainRun
from tests.builders import T0
from tests.gang_builders import an_object, later, link_to, members_of

RAY = "ray/RayCluster/train/llm"


def a_group(name: str = "gpu", replicas: int = 4, **facts: Any) -> RayGroup:
    """Four workers of eight GPUs, and room for two more."""
    values: dict[str, Any] = {"minimum": replicas, "maximum": replicas + 2, "gpus_limit": 8} | facts
    return RayGroup(name, replicas, **values)


def ray_facts(*groups: RayGroup, kind: str = "RayCluster", **facts: Any) -> RayFacts:
    """A healthy cluster by default: fault tolerant, a new Ray, labelled, room to spare."""
    head = RayGroup("head", 1, 1, 1)
    values: dict[str, Any] = {
        "version": "2.60.0",
        "fault_tolerant": True,
        "recovery_seconds": 600,
        "gang_label": True,
    } | facts
    return RayFacts(kind, groups=(*(groups or (a_group(),)), head), **values)


def a_cluster_object(facts: RayFacts | None = None, **fields: Any) -> GangObject:
    told = facts or ray_facts()
    wanted = 1 + sum(group.replicas * group.hosts for group in told.groups if group.name != "head")
    return an_object("ray", "llm", ray=told, **{"wanted": wanted, "started_at": T0, **fields})


def a_ray_gang(
    facts: RayFacts | None = None,
    *others: GangObject,
    placed: int = 5,
    waiting: int = 0,
    members: list[Member] | None = None,
    **fields: Any,
) -> Gang:
    """All five members of a cluster placed and ready unless told; `others` join by owner or by the members' links."""
    cluster = a_cluster_object(facts, **fields)
    links = (*(one.ref.key for one in others if one.places), link_to("ray", "llm"))
    there = members_of(RAY, placed, waiting, links=links) if members is None else members
    (joined,) = join([cluster, *others], there).values()
    return count(joined)


def a_placement(id_: str = "pg1", state: Any = "CREATED", **facts: Any) -> PlacementGroup:
    values: dict[str, Any] = {
        "name": "",
        "scheduling": "FINISHED",
        "detached": False,
        "job": "01000000",
        "strategy": "PACK",
        "bundles": ((("CPU", 1.0), ("GPU", 8.0)),),
        "nodes": ("n1",) if state == "CREATED" else (),
    }
    return PlacementGroup(id_, state=state, **(values | facts))


def a_ray_job(id_: str = "01000000", status: str = "SUCCEEDED") -> RayJobSeen:
    return RayJobSeen(id_, "raysubmit_1", status, "", T0, later(5))


def a_ray_node(name: str, gpus: float = 8.0, *, alive: bool = True) -> RayNode:
    return RayNode(f"id-{name}", name, "10.0.0.1", alive, False, gpus, None)


def a_run(name: str = "train", workers: tuple[int, int] = (2, 4), **facts: Any) -> TrainRun:
    values: dict[str, Any] = {
        "job": "01000000",
        "status": "RUNNING",
        "gpus_per_worker": 8.0,
        "max_failures": 3,
        "attempts": 1,
    }
    return TrainRun(f"id-{name}", name, workers=workers, **(values | facts))


def a_reading(minutes: float = 0, **facts: Any) -> RayReading:
    return RayReading(later(minutes), "2.60.0", True, **facts)
