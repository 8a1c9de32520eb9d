"""PodGroup and ElasticQuota of scheduler-plugins: the group says little, its pods the rest."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.ports.gangs import Quota
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    gang_of,
    gangs_of,
    pods,
    queue_in,
    resource,
    said_by,
    when,
    why,
)
from tests.unit.gangs.scenes import OUT, a_room

API = "scheduling.x-k8s.io/v1alpha1"
LABEL = {"scheduling.x-k8s.io/pod-group": "llm"}
SIBLINGS = "rejected by PreFilter: cannot find enough sibling pods, current pods number: 2, minMember of group: 4"


def group(phase: str = "", least: int = 4, **status: Any) -> Json:
    told = {"phase": phase, **status} if phase else None
    return resource(API, "PodGroup", "llm", {"minMember": least, "scheduleTimeoutSeconds": 60}, told)


def test_a_healthy_group_runs_and_says_since_when() -> None:
    raw = group("Running", running=4, scheduleStartTime=at(3, 4), occupiedBy="train/llm")
    one = said_by(raw)
    assert (one.places, one.minimum, one.wanted, one.guarantee, one.started_at) == (True, 4, None, "whole", when(3, 4))
    gang = gang_of(raw, *pods("llm", 4, labels=LABEL))
    assert (gang.key, gang.state, gang.gpus_held, gang.owner) == (
        "coscheduling/PodGroup/train/llm",
        "running",
        32,
        "",  # what occupies the group is a workload and nobody's name
    )


def test_the_groups_own_count_is_not_believed() -> None:
    """It leaves out pods that are bound and have not started, which hold their GPUs all the same."""
    raw = group("Scheduling", running=0, scheduleStartTime=at(4))
    assert said_by(raw).started_at is None
    gang = gang_of(raw, *pods("llm", 3, 1, labels=LABEL))
    assert (gang.state, gang.placed, gang.gpus_held_idle) == ("partial", 3, 24)


def test_pods_beyond_the_minimum_do_not_make_it_wait() -> None:
    gang = gang_of(group("Running", 2), *pods("llm", 2, 2, labels=LABEL))
    assert (gang.state, gang.wanted, gang.unscheduled) == ("running", 4, 2)


def test_its_pods_tell_that_the_quota_is_used_up() -> None:
    said = "0/8 nodes are available: pod train/llm-0 is rejected due to ElasticQuota train/gpus is more than Max."
    gang = gang_of(group("Pending"), *pods("llm", 0, 4, labels=LABEL, waits=said))
    assert (why(gang, a_room("a")).code, why(gang, a_room("a")).raw) == ("QUOTA", said)


def test_a_required_leaf_that_is_full_is_not_helped_by_room_elsewhere() -> None:
    near: Json = {"nodeSelector": {"topology.muster.dev/leaf": "1"}}
    gang = gang_of(group("Pending", 2), *pods("llm", 0, 2, labels=LABEL, waits=SIBLINGS, **near))
    rooms = [a_room("a", labels={"topology.muster.dev/leaf": "1"}), a_room("c"), a_room("d")]
    assert why(gang, *rooms).code == "EXCEEDS_MAX"
    more = a_room("b", used=8, labels={"topology.muster.dev/leaf": "1"})
    assert (why(gang, *rooms, more).code, why(gang, *rooms, more).slots) == ("CAPACITY", 1)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (SIBLINGS, "FRAGMENTATION"),
        ("optimistic rejection in PostFilter", "FRAGMENTATION"),
        ("gets rejected due to Pod train/llm-2 is unschedulable even after PostFilter", "FRAGMENTATION"),
        ("resource gap: nvidia.com/gpu: 8", "FRAGMENTATION"),
    ],
)
def test_arithmetic_says_what_its_words_leave_open(words: str, code: str) -> None:
    gang = gang_of(group("Pending", 1), *pods("llm", 0, 1, labels=LABEL, waits=words))
    reason = why(gang, a_room("a", used=4), a_room("b", used=4))
    assert (reason.code, reason.raw) == (code, words)
    assert [said.code for said in gang.said] == ["CAPACITY"]


def test_the_sick_node_it_waits_for_is_named() -> None:
    gang = gang_of(group("Scheduling", 2), *pods("llm", 1, 1, labels=LABEL))
    assert [b.node for b in why(gang, a_room("gpu-0", used=8), a_room("bad", out=OUT)).blockers] == ["bad"]


def test_an_evicted_member_leaves_the_rest_idle_whatever_the_phase_says() -> None:
    gone = pods("llm", 1, first=3, labels=LABEL)[0]
    gone["metadata"]["name"] = "llm-3"
    gone["status"] = {"phase": "Failed", "reason": "Evicted"}
    gang = gang_of(group("Running"), *pods("llm", 3, labels=LABEL), gone)
    assert (gang.state, gang.placed, gang.gpus_held, gang.gpus_held_idle) == ("partial", 3, 24, 24)


def test_a_group_that_was_never_updated_stays_what_it_was_made_for() -> None:
    """The operator makes it once: its minimum is not the cluster's size of today, and both are kept."""
    spec = {"headGroupSpec": {"template": {"spec": {"containers": [{"name": "head"}]}}}}
    grown = resource("ray.io/v1", "RayCluster", "llm", spec, {"desiredWorkerReplicas": 8})
    made = group("Running", 5)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": "ray.io/v1", "kind": "RayCluster", "name": "llm", "uid": "uid-llm"}
    ]
    made["metadata"]["uid"] = "uid-group"
    gang = gang_of(made, grown, *pods("llm", 5, 4, labels={**LABEL, "ray.io/cluster": "llm"}))
    assert (gang.minimum, gang.wanted, gang.state) == (5, 9, "running")


def test_a_finished_group_without_pods_is_over() -> None:
    assert gang_of(group("Finished", succeeded=4)).state == "finished"
    assert gang_of(group("Failed", failed=1)).state == "finished"


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_a_group_that_ended_while_its_pods_go_on_is_not_over(phase: str) -> None:
    """Its controller never looks at it again: pods that a restart made hold their GPUs under the old word."""
    gang = gang_of(group(phase, failed=1), *pods("llm", 4, labels=LABEL))
    assert (gang.state, gang.gpus_held) == ("running", 32)
    assert gang_of(group(phase, failed=1), *pods("llm", 2, 2, labels=LABEL)).gpus_held_idle == 16


def test_the_label_of_older_releases_joins_too() -> None:
    old = {"pod-group.scheduling.sigs.k8s.io": "llm"}
    assert gang_of(group("Running"), *pods("llm", 4, labels=old)).placed == 4


def test_pods_of_a_group_that_is_not_there_are_still_a_gang() -> None:
    gang = gang_of(*pods("llm", 1, 1, labels=LABEL))
    assert (gang.key, gang.objects, gang.wanted) == ("coscheduling/PodGroup/train/llm", (), 2)


def test_groups_of_the_same_name_in_two_namespaces_are_two() -> None:
    other = group("Pending")
    other["metadata"] |= {"namespace": "serve", "uid": "uid-other"}
    assert len(gangs_of(group("Pending"), other)) == 2


def quota(used: Json | None = None, **spec: Json) -> Json:
    return resource(API, "ElasticQuota", "gpus", spec, {"used": used} if used is not None else None)


def test_a_quota_is_guaranteed_up_to_its_least_and_ends_at_its_most() -> None:
    raw = quota({"nvidia.com/gpu": "40", "cpu": "96"}, min={"nvidia.com/gpu": "32"}, max={"nvidia.com/gpu": "64"})
    assert queue_in(raw).quotas == (
        Quota("", "nvidia.com/gpu", guaranteed=32.0, used=40.0, borrowed=8.0, ceiling=64.0),
    )


def test_a_quota_without_a_status_or_a_bound_says_none() -> None:
    assert queue_in(quota(min={"nvidia.com/gpu": 8})).quotas == (Quota("", "nvidia.com/gpu", guaranteed=8.0),)
    assert queue_in(quota({"nvidia.com/gpu": 8}, min={"cpu": 4})).quotas == (Quota("", "nvidia.com/gpu", used=8.0),)
    assert queue_in(quota()).quotas == ()


def test_a_quota_may_be_of_parts_of_a_gpu() -> None:
    parts = quota({"nvidia.com/gpu": "500m"}, min={"nvidia.com/gpu": "0.25"}, max={"nvidia.com/gpu": "1500m"})
    (found,) = queue_in(parts).quotas
    assert (found.guaranteed, found.used, found.borrowed, found.ceiling) == (0.25, 0.5, 0.25, 1.5)
