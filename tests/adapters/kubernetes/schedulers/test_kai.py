"""PodGroup and Queue of the KAI Scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.ports.gangs import Quota, Topology
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    pods,
    queue_in,
    resource,
    said_by,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

NAMED: Json = {"annotations": {"pod-group-name": "pg-llm"}, "labels": {"kai.scheduler/queue": "research"}}
KAI = "kai.scheduler/"


def group(status: Json | None = None, annotations: dict[str, str] | None = None, **spec: Any) -> Json:
    meta: Json = {"annotations": {KAI + key: value for key, value in (annotations or {}).items()}}
    body = {"minMember": 4, "queue": "research", **spec}
    body = {key: value for key, value in body.items() if value is not None}
    return resource("scheduling.run.ai/v2alpha2", "PodGroup", "pg-llm", body, status, **meta)


def unschedulable(*reasons: tuple[str, str], pool: str = "default", message: str = "", **facts: Any) -> Json:
    told = condition("UnschedulableOnNodePool", True, "Unschedulable", message, since=at(4))
    return {**told, "nodePool": pool, "reasons": [{"reason": r, "message": m} for r, m in reasons], **facts}


def waiting(*conditions: Json) -> Json:
    return {"schedulingConditions": list(conditions)}


def test_a_healthy_group_says_when_it_was_started() -> None:
    raw = group({"resourcesStatus": {"allocated": {"nvidia.com/gpu": "32"}}}, {"last-start-timestamp": at(5)})
    gang = gang_of(raw, *pods("llm", 4, **NAMED))
    assert (gang.key, gang.state, gang.queue, gang.minimum) == ("kai/PodGroup/train/pg-llm", "running", "research", 4)
    assert (gang.started_at, gang.gpus_held, gang.gpus_held_idle, gang.guarantee) == (when(5), 32, 0, "whole")


def test_a_group_placed_in_part_is_idle() -> None:
    gang = gang_of(group(), *pods("llm", 1, 3, **NAMED))
    assert (gang.state, gang.gpus_held_idle) == ("partial", 8)


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("NonPreemptibleOverQuota", "QUOTA"),
        ("OverLimit", "QUOTA"),
        ("QueueDoesNotExist", "QUEUE_STOPPED"),
        ("PreemptionDelayNotElapsed", "PRIORITY_BEHIND"),
    ],
)
def test_the_reasons_it_names_are_known(reason: str, code: str) -> None:
    gang = gang_of(group(waiting(unschedulable((reason, "its own words")))), *pods("llm", 0, 4, **NAMED))
    assert (code, "its own words") in words(gang)
    assert why(gang, *(a_room(f"n{n}") for n in range(4))).code == code


def test_what_kept_it_waiting_before_it_was_started_counts_no_more() -> None:
    """Its conditions are not taken back when it is placed (KAI-Scheduler#1888)."""
    full = waiting(unschedulable(("OverLimit", "over the limit")))
    assert said_by(group(full, {"last-start-timestamp": at(5)})).said == ()
    assert said_by(group(full, {"last-start-timestamp": at(3)})).said != (), "it waits anew"
    evicted = {"last-start-timestamp": at(5), "last-eviction-timestamp": at(6)}
    assert said_by(group(full, evicted)).said != (), "and here too, in the same words"


def test_a_message_without_reasons_is_read_by_its_words() -> None:
    message = "topology constraint not satisfied: no domain at level rack has 32 GPUs"
    raw = group(waiting(unschedulable(message=message)))
    assert words(said_by(raw)) == [("TOPOLOGY", message)]


def test_each_node_pool_says_its_own() -> None:
    """One pool's reasons do not silence the message of another."""
    raw = group(
        waiting(
            unschedulable(("OverLimit", "over the limit"), pool="a"),
            unschedulable(pool="b", message="3 nodes are available"),
        )
    )
    assert words(said_by(raw)) == [("QUOTA", "over the limit"), ("CAPACITY", "3 nodes are available")]
    assert said_by(raw).said[0].source == "PodGroup condition UnschedulableOnNodePool (a): OverLimit"
    assert said_by(raw).said[0].at == when(4)


def test_what_was_unschedulable_and_is_no_more_is_not_said() -> None:
    assert said_by(group(waiting(unschedulable(("OverLimit", "x"), status="False")))).said == ()


def test_a_required_level_binds_all_members() -> None:
    level = {"topology": "fabric", "requiredTopologyLevel": "leaf"}
    raw = group(minMember=2, topologyConstraint=level)
    gang = gang_of(raw, *pods("llm", 0, 2, **NAMED))
    assert said_by(raw).parts[0].topology == Topology("leaf", required=True)
    spread = [a_room("a", labels={"leaf": "1"}), a_room("b", labels={"leaf": "2"})]
    assert (why(gang, *spread).code, why(gang, *spread).level) == ("TOPOLOGY", "leaf")
    wish = group(minMember=2, topologyConstraint={"topology": "fabric", "preferredTopologyLevel": "leaf"})
    assert why(gang_of(wish, *pods("llm", 0, 2, **NAMED)), *spread).fits is True


def test_subgroups_have_minimums_and_levels_of_their_own() -> None:
    raw = group(
        minMember=None,
        topologyConstraint={"topology": "fabric", "requiredTopologyLevel": "rack"},
        subGroups=[
            {"name": "decode", "minMember": 4, "topologyConstraint": {"requiredTopologyLevel": "leaf"}},
            {"name": "prefill", "minMember": 2},
        ],
    )
    assert [(p.role, p.minimum, p.topology.level if p.topology else "") for p in said_by(raw).parts] == [
        ("decode", 4, "leaf"),
        ("prefill", 2, "rack"),
    ]
    assert said_by(raw).minimum == 6
    labels = {"kai.scheduler/subgroup-name": "decode"}
    gang = gang_of(raw, *pods("llm", 0, 1, annotations=NAMED["annotations"], labels=labels))
    assert [(m.role, m.count) for m in gang.missing] == [("decode", 1), ("decode", 3), ("prefill", 2)]


@pytest.mark.parametrize(
    ("spec", "least"),
    [
        ({"minSubGroup": 1, "subGroups": [{"name": "a", "minMember": 4}, {"name": "b", "minMember": 2}]}, 2),
        (
            {
                "subGroups": [
                    {"name": "a", "minSubGroup": 2},
                    {"name": "a-0", "parent": "a", "minMember": 3},
                    {"name": "a-1", "parent": "a", "minMember": 3},
                    {"name": "a-2", "parent": "a", "minMember": 3},
                ]
            },
            6,
        ),
        ({"subGroups": [{"name": "a", "parent": "b"}, {"name": "b", "parent": "a"}]}, None),
        ({}, None),
    ],
)
def test_a_group_that_asks_for_subgroups_needs_the_least_of_them(spec: Json, least: int | None) -> None:
    assert said_by(group(minMember=None, **spec)).minimum == least


def test_scattered_gpus_are_fragmentation() -> None:
    gang = gang_of(group(minMember=1), *pods("llm", 0, 1, **NAMED))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_it_waits_for_is_named() -> None:
    gang = gang_of(group(minMember=2), *pods("llm", 1, 1, **NAMED))
    assert [b.node for b in why(gang, a_room("gpu-0", used=8), a_room("bad", out=OUT)).blockers] == ["bad"]


def test_an_eviction_begins_a_new_wait() -> None:
    gang = gang_of(
        group(annotations={"last-start-timestamp": at(4), "last-eviction-timestamp": at(6)}),
        *pods("llm", 0, 4, **NAMED),
    )
    assert (gang.state, gang.waits_since) == ("waiting", when(6))


def test_a_stale_group_holds_its_gpus_for_nothing_though_its_minimum_is_placed() -> None:
    """One of four has failed; the three that are left are evicted after the grace, and compute nothing until then."""
    allocated = {"resourcesStatus": {"allocated": {"nvidia.com/gpu": "24", "cpu": "96"}}}
    raw = group(allocated, {"stale-podgroup-timestamp": at(6)}, minMember=3)
    one = said_by(raw)
    assert (one.gpus_idle, one.stale.at if one.stale else None) == (24, when(6))
    assert gang_of(raw, *pods("llm", 3, **NAMED)).gpus_held_idle == 24
    assert said_by(group(allocated)).stale is None


def test_the_queue_label_of_older_releases_is_read() -> None:
    (pod,) = pods("llm", 1, labels={"runai/queue": "old"}, annotations={"pod-group-name": "gone"})
    assert gang_of(pod).queue == "old"


def queue(status: Json | None = None, **gpu: float) -> Json:
    spec = {"parentQueue": "department", "resources": {"gpu": gpu}}
    return resource("scheduling.run.ai/v2", "Queue", "research", spec, status, namespace="")


def test_a_queue_over_its_quota_borrows() -> None:
    status = {"allocated": {"nvidia.com/gpu": "40"}, "requested": {"nvidia.com/gpu": "56"}}
    found = queue_in(queue(status, quota=32, limit=64, overQuotaWeight=2))
    assert found.quotas == (
        Quota("", "nvidia.com/gpu", guaranteed=32.0, used=40.0, borrowed=8.0, ceiling=64.0, wanted=16.0),
    )
    assert (found.parent, found.weight) == ("department", 2.0)


def test_parts_of_a_gpu_count_and_minus_one_is_no_bound() -> None:
    found = queue_in(queue({"allocated": {"nvidia.com/gpu": "1500m"}}, quota=0.5, limit=-1, overQuotaWeight=0.5))
    assert found.quotas == (Quota("", "nvidia.com/gpu", guaranteed=0.5, used=1.5, borrowed=1.0, wanted=0.0),)


def test_an_orphan_queue_and_one_without_numbers() -> None:
    orphan = queue({"conditions": [condition("Orphan", True, "ParentMissing", "no such parent")]})
    assert [said.code for said in queue_in(orphan).said] == ["QUEUE_STOPPED"]
    assert queue_in(queue()).quotas == (Quota("", "nvidia.com/gpu", wanted=0.0),)
