"""Slinky: a NodeSet is as many nodes of Slurm as it has pods, each of which starts by itself."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.kubernetes import decode
from fleet.gangs.conditions.guarantee import guarantee
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    gangs_of,
    pod,
    pods,
    resource,
    said_by,
    tell,
    template,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

LIMITS = {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "8"}}
OWNER = ("NodeSet", "train", "uid-train")


def node_set(replicas: int | None = 4, counts: Json | None = None, *, version: str = "v1beta1", **spec: Any) -> Json:
    """`counts` are Slurm's, by their short names."""
    told: Json = {"controllerRef": {"name": "slurm"}, "slurmd": {"resources": LIMITS}, **spec}
    if replicas is not None:
        told["replicas"] = replicas
    status = {"nodeSetHash": "abc", "selector": "app=slurmd", "replicas": replicas or 0}
    status |= {f"slurm{name.capitalize()}": count for name, count in (counts or {}).items() if name != "desired"}
    status |= {"desired": counts["desired"]} if counts and "desired" in counts else {}
    return resource(f"slinky.slurm.net/{version}", "NodeSet", "train", told, status)


def slurmds(placed: int, waiting: int = 0, **facts: Any) -> list[Json]:
    return pods("train", placed, waiting, owner=OWNER, **facts)


def slurmd(*states: str, reason: str = "") -> Json:
    """One pod with the states that Slurm tells of it."""
    raw = pod("train-0", "gpu-0", owner=OWNER)
    raw["status"]["conditions"] += [
        condition(f"SlurmNodeState{state}", True, message=reason if state == "Drain" else "") for state in states
    ]
    return raw


def test_a_healthy_set_is_at_work_and_in_slurm_s_words() -> None:
    gang = gang_of(node_set(4, {"allocated": 3, "idle": 1}), *slurmds(4))
    assert (gang.key, gang.state, gang.title) == ("slinky/NodeSet/train/train", "running", "NodeSet train")
    assert (gang.wanted, gang.placed, gang.gpus_held, gang.gpus_held_idle) == (4, 4, 32, 0)
    assert gang.objects[0].phase == "allocated 3, idle 1" and gang.owner == "slurm"


def test_a_set_of_which_some_found_a_node_holds_nothing_for_nothing() -> None:
    gang = gang_of(node_set(4), *slurmds(3, 1))
    assert (gang.state, gang.unscheduled, gang.gpus_held_idle) == ("running", 1, 0)
    assert list(guarantee(gang)) == []  # its pods need not start together: their jobs do


def test_a_quota_of_the_namespace_is_told_by_its_pods() -> None:
    gang = gang_of(node_set(), *slurmds(0, 4, waits="exceeded quota: gpus"))
    assert (gang.state, why(gang, a_room("a")).code) == ("waiting", "QUOTA")


def test_pods_that_fit_no_leaf_never_fit() -> None:
    leaf = {"topology.muster.dev/leaf": "9"}
    gang = gang_of(node_set(2, template=template(0, nodeSelector=leaf, containers=[])))
    assert why(gang, a_room("a", labels={"topology.muster.dev/leaf": "1"})).code == "EXCEEDS_MAX"


def test_scattered_gpus_are_fragmentation() -> None:
    assert why(gang_of(node_set(1)), a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_that_it_waits_for_is_named() -> None:
    gang = gang_of(node_set(1), *slurmds(0, 1))
    assert [blocker.node for blocker in why(gang, a_room("bad", out=OUT)).blockers] == ["bad"]


def test_nodes_that_slurm_drains_or_calls_down_are_told() -> None:
    one = said_by(node_set(4, {"drain": 1, "down": 2, "idle": 1}))
    assert words(one) == [
        ("NODE_UNHEALTHY", "1 of 4 are drained or about to be in Slurm."),
        ("NODE_UNHEALTHY", "2 of 4 are down in Slurm."),
    ]


def test_a_pod_that_was_evicted_holds_its_gpus_until_it_is_gone() -> None:
    gang = gang_of(node_set(4), *slurmds(3), pod("train-9", "gpu-3", owner=OWNER, deletionTimestamp=at(6)))
    assert (gang.placed, gang.gpus_held) == (3, 32)


def test_pods_of_a_set_that_is_gone_are_still_shown() -> None:
    (gang,) = gangs_of(*slurmds(2)).values()
    assert gang.placed == 2 and gang.objects == ()


def test_a_set_of_every_node_wants_as_many_as_fit_it() -> None:
    assert said_by(node_set(None, {"desired": 7}, scalingMode="DaemonSet")).wanted == 7
    assert said_by(node_set(None, scalingMode="DaemonSet")).wanted == 0  # its controller has not counted yet
    assert said_by(node_set(None)).wanted == 1


def test_a_set_of_none_is_suspended() -> None:
    gang = gang_of(node_set(0))
    assert (gang.state, gang.gpus_held) == ("suspended", 0)


def test_the_older_version_reads_alike() -> None:
    assert said_by(node_set(4, version="v1alpha1")) == said_by(node_set(4))


def test_the_container_of_slurmd_may_stand_in_the_template() -> None:
    inside = [{"name": "slurmd", "image": "slurmd:24", "resources": LIMITS}, {"name": "exporter", "image": "e:1"}]
    for raw in (node_set(1), node_set(1, slurmd={}, template={"spec": {"containers": inside}})):
        (part,) = tell(raw).objects[0].parts
        assert part.need is not None and part.need.gpus == 8


@pytest.mark.parametrize(
    ("states", "told"),
    [
        (("Idle",), ("Idle",)),
        (("Drain", "Allocated"), ("Allocated", "Drain")),
        ((), ()),
        (("Drain", "Idle"), ("Drain", "Idle")),
        (("Drain", "Undrain", "Idle"), ("Idle", "Undrain")),  # it is just being lifted: work may come
    ],
)
def test_what_slurm_says_of_a_pod_is_told_with_it(states: tuple[str, ...], told: tuple[str, ...]) -> None:
    assert decode.pod(slurmd(*states, reason="slurm-operator: Xid 79")).slurm == told


def test_a_state_that_ended_is_not_told() -> None:
    raw = slurmd("Idle")
    raw["status"]["conditions"].append(condition("SlurmNodeStateDrain", False))
    assert decode.pod(raw).slurm == ("Idle",)
