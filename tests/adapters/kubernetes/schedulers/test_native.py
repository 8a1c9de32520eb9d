"""Kubernetes' own groups, whose shape changed with each release."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    gangs_of,
    pods,
    resource,
    said_by,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

GROUPED: Json = {"schedulingGroup": {"podGroupName": "llm"}}
PLACED = {
    "v1alpha2": "PodGroupScheduled",
    "v1alpha3": "PodGroupInitiallyScheduled",
    "v1beta1": "PodGroupInitiallyScheduled",
}
SHORT = "minCount of pods is not satisfied: 0/2 nodes are available: 2 Insufficient nvidia.com/gpu."


def group(*conditions: Json, api: str = "v1alpha2", policy: Json | None = None, **meta: Any) -> Json:
    spec = {"schedulingPolicy": {"gang": {"minCount": 4}} if policy is None else policy}
    return resource(f"scheduling.k8s.io/{api}", "PodGroup", "llm", spec, {"conditions": list(conditions)}, **meta)


def unplaced(message: str = SHORT, reason: str = "Unschedulable", *, api: str = "v1alpha2") -> Json:
    return condition(PLACED[api], False, reason, message, since=at(4))


@pytest.mark.parametrize("api", sorted(PLACED))
def test_a_healthy_group_reads_alike_in_every_release(api: str) -> None:
    raw = group(condition(PLACED[api], True, since=at(5)), api=api)
    gang = gang_of(raw, *pods("llm", 4, **GROUPED))
    assert (gang.key, gang.state, gang.minimum) == ("native/PodGroup/train/llm", "running", 4)
    assert (gang.started_at, gang.guarantee) == (when(5), "whole")


@pytest.mark.parametrize("api", sorted(PLACED))
def test_a_group_that_waits_keeps_its_schedulers_words(api: str) -> None:
    raw = group(unplaced(api=api), api=api)
    assert words(said_by(raw)) == [("CAPACITY", SHORT)]
    assert (said_by(raw).said[0].at, said_by(raw).started_at) == (when(4), None)


def test_a_group_placed_in_part_is_idle() -> None:
    """Its members were there and one was lost: the scheduler keeps no gang together after the start."""
    gang = gang_of(group(condition("PodGroupScheduled", True)), *pods("llm", 3, 1, **GROUPED))
    assert (gang.state, gang.gpus_held_idle) == ("partial", 24)


def test_its_pods_tell_that_the_namespaces_quota_is_used_up() -> None:
    gang = gang_of(group(), *pods("llm", 0, 4, waits="exceeded quota: gpus", **GROUPED))
    assert why(gang, a_room("a")).code == "QUOTA"


def test_topology_in_its_words_counts_where_no_node_tells_a_level() -> None:
    message = "pod topology spread constraints are not met by any placement"
    gang = gang_of(group(unplaced(message)), *pods("llm", 0, 4, waits=message, **GROUPED))
    reason = why(gang, *(a_room(f"n{n}") for n in range(4)))
    assert (reason.code, reason.fits, reason.raw) == ("TOPOLOGY", True, message)


def test_scattered_gpus_are_fragmentation() -> None:
    gang = gang_of(group(unplaced(), policy={"gang": {"minCount": 1}}), *pods("llm", 0, 1, **GROUPED))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_it_waits_for_is_named() -> None:
    gang = gang_of(group(unplaced(), policy={"gang": {"minCount": 2}}), *pods("llm", 1, 1, **GROUPED))
    assert [b.node for b in why(gang, a_room("gpu-0", used=8), a_room("bad", out=OUT)).blockers] == ["bad"]


def test_a_group_that_was_preempted_waits_anew_behind_another() -> None:
    raw = group(condition("DisruptionTarget", True, "PreemptionByScheduler", "for a higher priority", since=at(6)))
    gang = gang_of(raw, *pods("llm", 0, 4, **GROUPED))
    assert (gang.waits_since, words(said_by(raw))) == (when(6), [("PRIORITY_BEHIND", "for a higher priority")])
    assert why(gang, *(a_room(f"n{n}") for n in range(4))).code == "PRIORITY_BEHIND"


def test_an_error_of_the_scheduler_is_not_made_a_reason() -> None:
    assert words(said_by(group(unplaced("plugin panicked", "SchedulerError")))) == [("UNKNOWN", "plugin panicked")]


@pytest.mark.parametrize(
    ("policy", "guarantee", "least"),
    [({"basic": {}}, "none", None), ({}, "unknown", None), ({"gang": {}}, "whole", None)],
)
def test_a_group_of_another_policy_is_no_gang(policy: Json, guarantee: str, least: int | None) -> None:
    one = said_by(group(policy=policy))
    assert (one.guarantee, one.minimum) == (guarantee, least)


def test_a_group_that_its_pods_name_and_nobody_serves_is_still_a_gang() -> None:
    gang = gang_of(*pods("llm", 1, 3, **GROUPED))
    assert (gang.key, gang.objects, gang.wanted, gang.guarantee) == ("native/PodGroup/train/llm", (), 4, "none")


def test_a_group_left_over_without_pods_holds_nothing_and_waits_for_nothing() -> None:
    gang = gang_of(group(condition("PodGroupScheduled", True)))
    assert (gang.state, gang.gpus_held, gang.missing) == ("empty", 0, ())


def workload(*groups: Json) -> Json:
    return resource("scheduling.k8s.io/v1alpha1", "Workload", "llm", {"podGroups": list(groups)})


def of_workload(name: str, replica: str = "") -> Json:
    return {"workloadRef": {"name": "llm", "podGroup": name, **({"podGroupReplicaKey": replica} if replica else {})}}


def test_a_workload_of_1_35_speaks_of_each_of_its_groups() -> None:
    raw = workload(
        {"name": "workers", "policy": {"gang": {"minCount": 2}}}, {"name": "driver", "policy": {"basic": {}}}
    )
    found = gangs_of(raw, *pods("w", 1, 1, **of_workload("workers")), *pods("d", 1, **of_workload("driver")))
    assert {key: (gang.state, gang.minimum, gang.guarantee) for key, gang in found.items()} == {
        "native/PodGroup/train/llm.workers": ("partial", 2, "whole"),
        "native/PodGroup/train/llm.driver": ("running", 1, "none"),
    }


def test_replicas_of_a_group_are_gangs_of_their_own() -> None:
    raw = workload({"name": "workers", "policy": {"gang": {"minCount": 2}}})
    found = gangs_of(raw, *pods("a", 2, **of_workload("workers", "0")), *pods("b", 1, 1, **of_workload("workers", "1")))
    assert {key: gang.state for key, gang in found.items() if gang.members} == {
        "native/PodGroup/train/llm.workers.0": "running",
        "native/PodGroup/train/llm.workers.1": "partial",
    }
