"""PodGroup, Job and Queue of Volcano."""

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
    template,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

GROUP = {"scheduling.k8s.io/group-name": "llm-pg"}
OF_JOB: Json = {"annotations": {**GROUP, "volcano.sh/task-spec": "worker", "volcano.sh/job-name": "llm"}}
UNSCHEDULABLE = "4/4 tasks in gang unschedulable: pod group is not ready, 4 Pending, 4 minAvailable"


def group(phase: str = "Pending", *conditions: Json, least: int = 4, owner: Any = None, **spec: Any) -> Json:
    status = {"phase": phase, "conditions": list(conditions)} if phase else None
    body = {"minMember": least, "queue": "research", **spec}
    return resource("scheduling.volcano.sh/v1beta1", "PodGroup", "llm-pg", body, status, owner=owner)


def unschedulable(message: str = UNSCHEDULABLE, reason: str = "NotEnoughResources", since: str = at(4)) -> Json:
    return condition("Unschedulable", True, reason, message, since=since)


def scheduled(since: str = at(5)) -> Json:
    return condition("Scheduled", True, "tasks in gang are ready to be scheduled", since=since)


def job(phase: str = "Pending", *, since: str = at(4), **spec: Any) -> Json:
    body = {
        "schedulerName": "volcano",
        "queue": "research",
        "minAvailable": 4,
        "tasks": [
            {"name": "master", "replicas": 1, "template": template(0)},
            {"name": "worker", "replicas": 4, "minAvailable": 3, "template": template(8)},
        ],
        **spec,
    }
    status = {"state": {"phase": phase, "lastTransitionTime": since}}
    return resource("batch.volcano.sh/v1alpha1", "Job", "llm", body, status)


def test_a_healthy_job_and_its_group_are_one_gang() -> None:
    made = group("Running", scheduled(), owner=("Job", "llm", "uid-llm"))
    gang = gang_of(job("Running"), made, *pods("llm-worker", 5, **OF_JOB))
    assert (gang.key, gang.title, gang.queue) == ("volcano/PodGroup/train/llm-pg", "Job llm", "research")
    assert (gang.state, gang.wanted, gang.minimum, gang.started_at) == ("running", 5, 4, when(5))
    assert gang.guarantee == "whole"


def test_a_job_that_its_queue_has_not_let_in_has_no_pods_yet() -> None:
    """Volcano makes them when the group is let in, so none of them can say why."""
    made = group("Pending", owner=("Job", "llm", "uid-llm"))
    gang = gang_of(job(), made)
    assert (gang.state, gang.not_created, gang.gpus_wanted) == ("waiting", 5, 32)
    assert said_by(made).admitted is False
    assert said_by(group("Inqueue")).admitted is True
    assert said_by(group("")).admitted is None


def test_part_of_its_minimum_running_is_held_for_nothing() -> None:
    gang = gang_of(group("Unknown", unschedulable(), least=4), *pods("llm", 3, 1, annotations=GROUP))
    assert (gang.state, gang.gpus_held_idle) == ("partial", 24)


def test_a_quota_in_the_gangs_message_outranks_missing_room() -> None:
    message = "queue resource quota insufficient: insufficient nvidia.com/gpu"
    gang = gang_of(job(), group("Pending", unschedulable(message), owner=("Job", "llm", "uid-llm")))
    assert (why(gang).code, why(gang).raw, why(gang).since) == ("QUOTA", message, when(4))


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ("NotEnoughResources", UNSCHEDULABLE, "CAPACITY"),
        ("NotEnoughResources", "", "CAPACITY"),
        ("NotEnoughTasks", "", "UNKNOWN"),
        ("PodFailed", "", "IMAGE_OR_INIT"),
        ("Invented", "what no release says", "UNKNOWN"),
    ],
)
def test_what_the_gang_plugin_says_keeps_its_words(reason: str, message: str, code: str) -> None:
    assert words(said_by(group("Inqueue", unschedulable(message, reason)))) == [(code, message or reason)]


@pytest.mark.parametrize(("waits", "placed", "is_placed"), [(4, 5, True), (5, 4, False), (5, 5, True)])
def test_of_two_conditions_that_both_stand_the_later_counts(waits: int, placed: int, is_placed: bool) -> None:
    """Neither is taken back: a group that was placed an hour after it could not be is not waiting, and the reverse."""
    one = said_by(group("Running", unschedulable(since=at(waits)), scheduled(at(placed))))
    assert (one.started_at == when(placed), one.said == ()) == (is_placed, is_placed)


@pytest.mark.parametrize(
    ("allocated", "capability", "code"),
    [(16, 32, "QUOTA"), (0, 16, "EXCEEDS_MAX"), (8, 40, "UNKNOWN"), (0, None, "UNKNOWN")],
)
def test_a_group_that_its_queue_refuses_in_silence_waits_for_the_quota(
    allocated: int, capability: int | None, code: str
) -> None:
    """The scheduler leaves an event, and no condition in any object (volcano#3220)."""
    full = queue(capability={} if capability is None else {"nvidia.com/gpu": capability})
    full["status"] = {"state": "Open", "allocated": {"nvidia.com/gpu": str(allocated)}}
    gang = gang_of(job(), group("Pending", owner=("Job", "llm", "uid-llm")))
    found = why(gang, *(a_room(f"n{n}") for n in range(8)), queue=queue_in(full))
    assert found.code == code
    if code == "QUOTA":
        assert found.raw == "16 of 32 nvidia.com/gpu of the queue are in use, and 24 more are needed."


def test_a_hard_tier_is_kept_and_a_soft_one_is_a_wish() -> None:
    (part,) = said_by(group(networkTopology={"mode": "hard", "highestTierAllowed": 2})).parts
    assert (part.topology, part.wanted) == (Topology("tier 2", required=True), 4)
    (part,) = said_by(group(networkTopology={"mode": "soft", "highestTierName": "rack"})).parts
    assert part.topology == Topology("tier rack", required=False)
    assert said_by(group()).parts == ()


def test_a_tier_binds_members_of_every_role() -> None:
    """The group's tier names no role; its members have one."""
    raw = group("Inqueue", unschedulable(), least=2, networkTopology={"mode": "hard", "highestTierName": "leaf"})
    gang = gang_of(raw, *pods("llm", 0, 2, **OF_JOB))
    assert [(m.role, m.topology) for m in gang.missing] == [("worker", Topology("tier leaf", required=True))]
    spread = [a_room("a", labels={"tier leaf": "1"}), a_room("b", labels={"tier leaf": "2"})]
    assert (why(gang, *spread).code, why(gang, *spread).level) == ("TOPOLOGY", "tier leaf")


def test_roles_have_minimums_of_their_own() -> None:
    parts = said_by(group(minTaskMember={"master": 1, "worker": 3})).parts
    assert [(part.role, part.minimum) for part in parts] == [("master", 1), ("worker", 3)]


def test_scattered_room_is_fragmentation_whatever_the_plugin_calls_it() -> None:
    gang = gang_of(group("Inqueue", unschedulable(), least=1), *pods("llm", 0, 1, annotations=GROUP))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_it_waits_for_is_named() -> None:
    gang = gang_of(group("Inqueue", unschedulable(), least=2), *pods("llm", 1, 1, annotations=GROUP))
    reason = why(gang, a_room("gpu-0", used=8), a_room("bad", out=OUT))
    assert (reason.code, [b.node for b in reason.blockers], reason.raw) == ("NODE_UNHEALTHY", ["bad"], UNSCHEDULABLE)


def test_a_restart_begins_a_new_wait() -> None:
    """One evicted member restarts the whole job."""
    made = group("Inqueue", owner=("Job", "llm", "uid-llm"))
    gang = gang_of(job("Restarting", since=at(6)), made)
    assert (gang.waits_since, gang.state) == (when(6), "waiting")


@pytest.mark.parametrize("phase", ["Aborting", "Aborted"])
def test_an_aborted_job_is_suspended_by_somebody(phase: str) -> None:
    raw = job(phase)
    raw["status"]["state"]["message"] = "aborted by a command"
    gang = gang_of(raw)
    assert (gang.state, why(gang).raw, why(gang).code) == ("suspended", "aborted by a command", "SUSPENDED")


@pytest.mark.parametrize("phase", ["Completed", "Terminated", "Failed"])
def test_a_job_that_ended_is_over_though_its_group_stayed(phase: str) -> None:
    stale = group("Running", scheduled(), owner=("Job", "llm", "uid-llm"))
    gang = gang_of(job(phase, since=at(7)), stale)
    assert (gang.state, said_by(job(phase, since=at(7))).ended_at) == ("finished", when(7))


def test_a_group_of_ray_names_its_cluster_by_ownership() -> None:
    spec = {"headGroupSpec": {"template": template(0)}, "workerGroupSpecs": []}
    ray = resource("ray.io/v1", "RayCluster", "chat", spec)
    gang = gang_of(ray, group("Inqueue", owner=("RayCluster", "chat", "uid-chat"), least=1))
    assert (gang.system, gang.title, gang.minimum) == ("volcano", "RayCluster chat", 1)


def queue(state: str = "Open", allocated: str = "48", **spec: Any) -> Json:
    status = {"state": state, "allocated": {"nvidia.com/gpu": allocated, "cpu": "9"}, "pending": 0, "running": 0}
    return resource("scheduling.volcano.sh/v1beta1", "Queue", "research", spec, status, namespace="")


def test_a_queue_tells_what_is_due_to_it_what_it_borrows_and_where_it_ends() -> None:
    raw = queue(
        weight=2,
        parent="root",
        dequeueStrategy="fifo",
        deserved={"nvidia.com/gpu": "32"},
        guarantee={"resource": {"nvidia.com/gpu": "16"}},
        capability={"nvidia.com/gpu": "64"},
    )
    found = queue_in(raw)
    assert found.quotas == (Quota("", "nvidia.com/gpu", guaranteed=32.0, used=48.0, borrowed=16.0, ceiling=64.0),)
    assert (found.parent, found.weight, found.head_blocks, found.stopped) == ("root", 2.0, True, False)
    assert (found.waiting, found.running) == (None, None), "its own counts stay at 0 in current releases"


def test_a_guarantee_counts_where_nothing_is_deserved() -> None:
    raw = queue(guarantee={"resource": {"nvidia.com/gpu": "16"}})
    assert queue_in(raw).quotas == (Quota("", "nvidia.com/gpu", guaranteed=16.0, used=48.0),)


@pytest.mark.parametrize("state", ["Closed", "Closing"])
def test_a_closed_queue_lets_nobody_in(state: str) -> None:
    found = queue_in(queue(state))
    gang = gang_of(job(), group("Pending", owner=("Job", "llm", "uid-llm")))
    assert found.stopped
    assert why(gang, a_room("a"), queue=found).code == "QUEUE_STOPPED"
    assert why(gang, a_room("a"), queue=found).raw == f"The queue is {state}."


def test_a_queue_may_be_due_a_part_of_a_gpu() -> None:
    shared = queue(deserved={"nvidia.com/gpu": "1500m"}, capability={"nvidia.com/gpu": "2500m"})
    shared["status"] = {"state": "Open", "allocated": {"nvidia.com/gpu": 2, "cpu": "1"}}
    assert queue_in(shared).quotas == (
        Quota("", "nvidia.com/gpu", guaranteed=1.5, used=2.0, borrowed=0.5, ceiling=2.5),
    )
