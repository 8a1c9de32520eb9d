"""Workload of Kueue, in the words of its releases."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.ports.gangs import SENT, Topology
from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    gangs_of,
    pods,
    resource,
    said_by,
    template,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

GROUPED: Json = {"labels": {"kueue.x-k8s.io/pod-group-name": "llm", "kueue.x-k8s.io/podset": "main"}}


def workload(*conditions: Json, sets: list[Json] | None = None, api: str = "v1beta2", **facts: Any) -> Json:
    meta = {key: facts.pop(key) for key in ("owner",) if key in facts}
    status = {"conditions": list(conditions), **facts.pop("status", {})}
    spec = {"queueName": "team", "podSets": sets or [pod_set()], **facts}
    return resource(f"kueue.x-k8s.io/{api}", "Workload", "llm", spec, status, **meta)


def pod_set(count: int = 4, **facts: Any) -> Json:
    return {"name": "main", "count": count, "template": template(8), **facts}


def waits(reason: str, message: str = "") -> Json:
    return condition("QuotaReserved", False, reason, message, since=at(4))


def admitted() -> list[Json]:
    return [condition("QuotaReserved", True, since=at(5)), condition("Admitted", True, since=at(5, 1))]


def reason_of(*conditions: Json, rooms: int = 4, **facts: Any) -> tuple[str, str]:
    reason = why(gang_of(workload(*conditions, **facts)), *(a_room(f"n{n}") for n in range(rooms)))
    return reason.code, reason.raw


def test_a_healthy_workload_is_admitted_and_its_pods_are_ready() -> None:
    admission = {"admission": {"clusterQueue": "research", "podSetAssignments": [{"name": "main", "count": 4}]}}
    raw = workload(*admitted(), condition("PodsReady", True, since=at(5, 9)), status=admission, priority=100)
    one = said_by(raw)
    assert (one.admitted, one.phase, one.queue, one.priority) == (True, "Admitted", "research", 100)
    assert (one.started_at, one.guarantee, one.wanted, one.minimum) == (when(5, 9), "whole", 4, 4)
    assert gang_of(raw, *pods("llm", 4, **GROUPED)).state == "running"


def test_an_admitted_workload_whose_pods_came_in_part_is_idle() -> None:
    gang = gang_of(workload(*admitted()), *pods("llm", 3, 1, **GROUPED))
    assert (gang.state, gang.gpus_held_idle, gang.guarantee) == ("partial", 24, "unknown")


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("WaitingForQuota", "QUOTA"),
        ("BorrowingLimitReached", "QUOTA"),
        ("Deactivated", "SUSPENDED"),
        ("ExceedsMaxQuota", "EXCEEDS_MAX"),
        ("NoMatchingFlavor", "EXCEEDS_MAX"),
        ("TopologyPlacementFailed", "TOPOLOGY"),
        ("WaitingForPreemptedWorkloads", "PRIORITY_BEHIND"),
        ("WaitingForPodsReady", "PRIORITY_BEHIND"),
        ("PendingEvaluation", "PRIORITY_BEHIND"),
        ("AdmissionGated", "ADMISSION_CHECK"),
        ("Misconfigured", "QUEUE_STOPPED"),
        ("Suspended", "QUEUE_STOPPED"),
    ],
)
def test_the_reasons_it_names_are_known(reason: str, code: str) -> None:
    assert reason_of(waits(reason, "as it says")) == (code, "as it says")


@pytest.mark.parametrize(
    ("reason", "message", "code"),
    [
        ("Pending", "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu", "QUOTA"),
        ("Pending", "insufficient quota for nvidia.com/gpu in flavor h100, request > maximum capacity", "EXCEEDS_MAX"),
        ("Pending", 'topology "fabric" allows to fit only 2 out of 4 pod(s)', "TOPOLOGY"),
        ("Pending", "Pending the preemption of 1 workload(s)", "PRIORITY_BEHIND"),
        ("Waiting", "waiting for all admitted workloads to be in PodsReady condition", "PRIORITY_BEHIND"),
        ("Inadmissible", "ClusterQueue research is inactive", "QUEUE_STOPPED"),
        ("Pending", "LocalQueue team doesn't exist", "QUEUE_STOPPED"),
        ("Pending", "insufficient quota for nvidia.com/gpu in flavor a, request > maximum capacity (16 > 8), "
         "insufficient unused quota for nvidia.com/gpu in flavor b, 2 more needed", "QUOTA"),
        ("Pending", "borrowing limit for nvidia.com/gpu in flavor h100 exceeded", "QUOTA"),
        ("Pending", "untolerated taint {gpu present NoSchedule <nil>} in flavor spot", "EXCEEDS_MAX"),
        ("Pending", "flavor h100 doesn't match node affinity", "EXCEEDS_MAX"),
        ("Pending", "resource amd.com/gpu unavailable in ClusterQueue", "EXCEEDS_MAX"),
        ("Pending", "Workload namespace doesn't match ClusterQueue selector", "QUEUE_STOPPED"),
        ("Pending", "Exceeded the PodsReady timeout train/llm", "UNKNOWN"),
        ("Inadmissible", "couldn't assign flavors to pod set main: insufficient unused quota for cpu", "QUOTA"),
        ("Pending", "Workload no longer fits after processing another workload", "PRIORITY_BEHIND"),
        ("Pending", "Workload didn't fit in the remaining quota", "QUOTA"),
        ("Pending", "The ClusterQueue is stopped", "QUEUE_STOPPED"),
        ("Inadmissible", "resource validation failed: podSets[0]: requests exceed the limits", "UNKNOWN"),
        ("Inadmissible", "resources didn't satisfy LimitRange constraints: [podSets[0]]", "UNKNOWN"),
        ("Pending", "what no release says", "UNKNOWN"),
    ],
)  # fmt: skip
def test_the_general_reasons_of_older_releases_are_read_by_their_words(reason: str, message: str, code: str) -> None:
    assert reason_of(waits(reason, message), api="v1beta1") == (code, message)


def test_a_check_that_is_open_keeps_an_admitted_quota_waiting() -> None:
    open_check = condition("Admitted", False, "UnsatisfiedAdmissionChecks", "not provisioned", since=at(5))
    assert reason_of(admitted()[0], open_check) == ("ADMISSION_CHECK", "not provisioned")
    assert said_by(workload(admitted()[0], open_check)).admitted is False
    later = condition("Admitted", False, "PendingDelayedTopologyRequests", "waits for its nodes")
    assert words(said_by(workload(admitted()[0], later))) == [("TOPOLOGY", "waits for its nodes")]
    without = condition("Admitted", False, "NoReservation", "no reservation")
    assert words(said_by(workload(waits("WaitingForQuota", "full"), without))) == [("QUOTA", "full")]
    assert said_by(workload(admitted()[0], without)).said == (), "it has a reservation by now"


def checks(state: str, message: str = "") -> Json:
    return {"admissionChecks": [{"name": "prov", "state": state, "message": message, "lastTransitionTime": at(5)}]}


def test_a_quota_without_its_checks_is_no_admission_though_no_condition_says_so() -> None:
    """Releases before 0.7 leave the condition Admitted away until then."""
    raw = workload(admitted()[0], status=checks("Pending", "Provisioning, ETA 20 min"))
    assert (said_by(raw).admitted, words(said_by(raw))) == (False, [("ADMISSION_CHECK", "Provisioning, ETA 20 min")])
    assert said_by(raw).said[0].at == when(5)
    assert words(said_by(workload(admitted()[0], status=checks("Retry")))) == [
        ("ADMISSION_CHECK", "The check prov is Retry.")
    ]
    assert said_by(workload(admitted()[0], status=checks("Ready", "done"))).admitted is True
    assert said_by(workload(*admitted(), status=checks("Pending"))).said == (), "it was let in all the same"


def test_what_the_check_says_goes_before_that_there_is_one() -> None:
    open_check = condition("Admitted", False, "UnsatisfiedAdmissionChecks", "not all checks are ready")
    gang = gang_of(workload(admitted()[0], open_check, status=checks("Pending", "no capacity in zone a")))
    assert why(gang, *(a_room(f"n{n}") for n in range(4))).raw == "no capacity in zone a"


def test_releases_that_know_no_reservation_are_read_by_their_admission() -> None:
    waiting = condition("Admitted", False, "Pending", "insufficient unused quota for nvidia.com/gpu in flavor h100")
    assert (said_by(workload(waiting)).admitted, words(said_by(workload(waiting)))[0][0]) == (False, "QUOTA")
    assert said_by(workload(admitted()[1])).admitted is True


def test_a_workload_that_was_sent_to_another_cluster_waits_for_nothing_here() -> None:
    gang = gang_of(workload(*admitted(), status={"clusterName": "west"}))
    assert (gang.state, why(gang).code, why(gang).raw) == ("suspended", "SUSPENDED", "It was sent to the cluster west.")
    assert why(gang).source == SENT


def test_a_required_level_is_kept_with_its_pod_set() -> None:
    sets = [pod_set(2, topologyRequest={"required": "leaf"})]
    raw = workload(waits("Pending", "does not fit"), sets=sets)
    assert said_by(raw).parts[0].topology == Topology("leaf", required=True)
    spread = [a_room("a", labels={"leaf": "1"}), a_room("b", labels={"leaf": "2"})]
    assert (why(gang_of(raw), *spread).code, why(gang_of(raw), *spread).level) == ("TOPOLOGY", "leaf")
    wish = workload(sets=[pod_set(2, topologyRequest={"preferred": "leaf"})])
    assert why(gang_of(wish), *spread).fits is True


def test_scattered_room_is_fragmentation_once_it_is_admitted() -> None:
    gang = gang_of(workload(*admitted(), sets=[pod_set(1)]), *pods("llm", 0, 1, **GROUPED))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_unhealthy_nodes_of_its_assignment_are_kept() -> None:
    sick = {"unhealthyNodes": [{"name": "gpu-3"}]}
    raw = workload(*admitted(), status=sick, sets=[pod_set(2)])
    assert said_by(raw).unhealthy_nodes == ("gpu-3",)
    reason = why(gang_of(raw, *pods("llm", 1, 1, **GROUPED)), a_room("gpu-0", used=8), a_room("gpu-3", out=OUT))
    assert (reason.code, [b.node for b in reason.blockers]) == ("NODE_UNHEALTHY", ["gpu-3"])


SLICES: Json = {"domainCount": 1, "podCounts": {"universal": 2}, "valuesPerLevel": [{"universal": "gpu-3"}]}
CHOSEN: dict[str, Json] = {  # what it says of the nodes it chose, in each of its versions
    "v1beta2": {"levels": ["kubernetes.io/hostname"], "slices": [SLICES]},
    "v1beta1": {"levels": ["kubernetes.io/hostname"], "domains": [{"values": ["gpu-3"], "count": 2}]},
}


@pytest.mark.parametrize("version", CHOSEN)
def test_whether_kueue_chose_the_nodes_is_told_by_its_admission_alone(version: str) -> None:
    asked = pod_set(2, topologyRequest={"required": "leaf"})
    chosen_here = [{"name": "main", "topologyAssignment": CHOSEN[version]}]
    for given, chosen in ((chosen_here, True), ([{"name": "main"}], False)):
        raw = workload(*admitted(), sets=[asked], api=version)
        raw["status"]["admission"] = {"clusterQueue": "research", "podSetAssignments": given}
        assert said_by(raw).by_topology is chosen
    assert said_by(workload(sets=[asked])).by_topology is False


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("Preempted", "PRIORITY_BEHIND"),
        ("PodsReadyTimeout", "CAPACITY"),
        ("AdmissionCheck", "ADMISSION_CHECK"),
        ("ClusterQueueStopped", "QUEUE_STOPPED"),
        ("LocalQueueStopped", "QUEUE_STOPPED"),
        ("NodeFailures", "NODE_UNHEALTHY"),
        ("Deactivated", "SUSPENDED"),
        ("DeactivatedDueToRequeuingLimitExceeded", "SUSPENDED"),
        ("Invented", "UNKNOWN"),
    ],
)
def test_an_eviction_begins_a_new_wait_and_says_why(reason: str, code: str) -> None:
    one = said_by(workload(condition("Evicted", True, reason, "as it says", since=at(6))))
    assert (one.waits_since, one.phase, words(one)) == (when(6), "Evicted", [(code, "as it says")])


def test_what_an_eviction_left_in_the_other_condition_is_not_taken_for_its_size() -> None:
    words = "Exceeded the PodsReady timeout train/llm"
    evicted = condition("Evicted", True, "PodsReadyTimeout", words)
    assert reason_of(waits("Pending", words), evicted, rooms=2) == ("EXCEEDS_MAX", words), "there are only two nodes"
    full = [a_room(f"n{n}", used=8) for n in range(4)]
    assert why(gang_of(workload(waits("Pending", words), evicted)), *full).code == "CAPACITY"


def test_a_requeue_after_the_eviction_begins_it_anew() -> None:
    evicted, again = condition("Evicted", True, "Preempted", since=at(6)), condition("Requeued", True, since=at(6, 30))
    assert said_by(workload(evicted, again)).waits_since == when(6, 30)


def test_an_eviction_of_before_is_forgotten_when_it_is_admitted_again() -> None:
    one = said_by(workload(*admitted(), condition("Evicted", False, "QuotaReserved", "Previously: Preempted")))
    assert (one.waits_since, one.said, one.phase) == (None, (), "Admitted")


def test_an_inactive_workload_is_suspended_by_a_person() -> None:
    raw = workload(condition("Evicted", True, "Deactivated", "by hand", since=at(6)), active=False)
    gang = gang_of(raw)
    assert (gang.state, why(gang).code, why(gang).raw, why(gang).since) == (
        "suspended",
        "SUSPENDED",
        "spec.active is false",
        when(6),
    )


@pytest.mark.parametrize(
    ("reason", "message"),
    [
        ("DeactivatedDueToRequeuingLimitExceeded", "The workload is deactivated"),
        ("Deactivated", "The workload is deactivated due to exceeding the maximum number of re-queuing retries"),
    ],
)
def test_a_workload_that_kueue_itself_switched_off_says_why(reason: str, message: str) -> None:
    gang = gang_of(workload(condition("Evicted", True, reason, message, since=at(6)), active=False))
    assert (gang.state, why(gang).code, why(gang).raw, why(gang).since) == ("suspended", "SUSPENDED", message, when(6))


def test_a_workload_without_a_queue_waits_for_one_and_kueue_says_nothing() -> None:
    assert reason_of(queueName="") == ("QUEUE_STOPPED", "It names no queue.")
    assert reason_of(waits("Pending", "LocalQueue  doesn't exist"), queueName="")[1] == "LocalQueue  doesn't exist"
    assert said_by(workload(*admitted(), queueName="")).said == ()
    assert said_by(workload(queueName="team")).said == ()


def test_closed_gates_of_preemption_are_a_check() -> None:
    gates = condition("BlockedOnPreemptionGates", True, message="the gate is closed")
    assert ("ADMISSION_CHECK", "the gate is closed") in words(said_by(workload(gates)))


def test_a_partial_admission_lowers_the_minimum() -> None:
    one = said_by(workload(sets=[pod_set(1, name="head"), pod_set(8, name="workers", minCount=4)]))
    assert (one.wanted, one.minimum, [part.role for part in one.parts]) == (9, 5, ["head", "workers"])


def assigned(count: int) -> Json:
    return {"admission": {"clusterQueue": "research", "podSetAssignments": [{"name": "main", "count": count}]}}


def test_what_was_admitted_in_part_is_wanted_and_no_more() -> None:
    raw = workload(*admitted(), sets=[pod_set(8, minCount=2)], status=assigned(4))
    gang = gang_of(raw, *pods("llm", 4, **GROUPED))
    assert (gang.state, gang.wanted, gang.minimum, gang.not_created, gang.gpus_wanted) == ("running", 4, 4, 0, 32)
    assert gang_of(raw, *pods("llm", 3, 1, **GROUPED)).state == "partial", "its job runs with four, and not with two"


def test_members_that_ended_well_are_not_waited_for() -> None:
    status = {**assigned(4), "reclaimablePods": [{"name": "main", "count": 3}]}
    gang = gang_of(workload(*admitted(), status=status), *pods("llm", 1, **GROUPED))
    assert (gang.state, gang.wanted, gang.minimum, gang.gpus_held_idle, gang.missing) == ("running", 1, 1, 0, ())


def job_pods(placed: int, waiting: int = 0) -> list[Json]:
    return pods("tune", placed, waiting, owner=("Job", "tune", "uid-tune"))


def test_the_pods_of_a_job_that_is_not_read_are_those_of_its_workload() -> None:
    """A plain Job names Kueue nowhere in its pods: what owns the Workload made them."""
    raw = workload(*admitted(), owner=("Job", "tune", "uid-tune"))
    gang = gang_of(raw, *job_pods(2, 2))
    assert (gang.key, gang.state, gang.placed, gang.gpus_held_idle) == ("kueue/Workload/train/llm", "partial", 2, 16)


def test_an_attempt_that_is_over_does_not_take_the_pods_of_the_next() -> None:
    owner = ("Job", "tune", "uid-tune")
    over = workload(*admitted(), condition("Finished", True, "WorkloadSliceReplaced"), owner=owner)
    over["metadata"] = {**over["metadata"], "name": "llm-0", "uid": "uid-llm-0"}
    gangs = gangs_of(over, workload(*admitted(), owner=owner), *job_pods(4))
    assert {key: gang.state for key, gang in gangs.items()} == {"kueue/Workload/train/llm": "running"}
    assert [gang.wanted for gang in gangs.values()] == [4]


def test_a_single_pod_is_the_member_of_its_own_workload() -> None:
    """Also where a Deployment made several: each is admitted by itself."""
    gated: Json = {
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
        "labels": {"kueue.x-k8s.io/managed": "true"},
    }
    made = pods("serve", 0, 2, owner=("ReplicaSet", "serve", "uid-serve"), **gated)
    raws = []
    for one in made:
        raw = workload(waits("Pending", "what no release says"), sets=[pod_set(1)])
        name = one["metadata"]["name"]
        owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}
        raw["metadata"] = {**raw["metadata"], "name": f"pod-{name}", "uid": f"w-{name}", "ownerReferences": [owner]}
        raws.append(raw)
    gangs = gangs_of(*raws, *made)
    assert sorted(gangs) == ["kueue/Workload/train/pod-serve-0", "kueue/Workload/train/pod-serve-1"]
    assert {(gang.wanted, gang.gated) for gang in gangs.values()} == {(1, 1)}


@pytest.mark.parametrize("gate", ["kueue.x-k8s.io/admission", "example.com/dataset"])
def test_members_that_are_still_gated_after_the_admission_say_so(gate: str) -> None:
    gated = pods("llm", 0, 4, schedulingGates=[{"name": gate}], **GROUPED)
    rooms = [a_room(f"n{n}") for n in range(4)]
    held = why(gang_of(workload(*admitted()), *gated), *rooms)
    assert (held.code, held.raw) == ("ADMISSION_CHECK", f"Held by the scheduling gates {gate}.")
    waiting = gang_of(workload(waits("WaitingForQuota", "full")), *gated)
    assert words(waiting) == [("QUOTA", "full")], "its queue holds it back, and the gate is only how"


def test_a_finished_workload_is_over() -> None:
    done = condition("Finished", True, "Succeeded", since=at(8))
    one = said_by(workload(*admitted(), done))
    assert (one.finished, one.ended_at, one.phase, gang_of(workload(done)).state) == (
        True,
        when(8),
        "Finished",
        "finished",
    )


def job_set(suspend: bool = True) -> Json:
    """Kueue keeps what it has not let in suspended."""
    job = {"name": "node", "replicas": 4, "template": {"spec": {"template": template(8)}}}
    status = {"conditions": [condition("Suspended", suspend, "SuspendedJobs", "jobs are suspended")]}
    return resource("jobset.x-k8s.io/v1alpha2", "JobSet", "tune", {"suspend": suspend, "replicatedJobs": [job]}, status)


def test_a_job_that_waits_for_its_quota_was_suspended_by_nobody() -> None:
    raw = workload(waits("WaitingForQuota", "full"), owner=("JobSet", "tune", "uid-tune"))
    (gang,) = gangs_of(job_set(), raw).values()
    assert (gang.key, gang.queue, gang.state) == ("jobset/JobSet/train/tune", "team", "waiting")
    assert words(gang) == [("QUOTA", "full")]
    assert (why(gang, a_room("a")).code, gang.gpus_wanted) == ("QUOTA", 32)


def test_a_job_whose_workload_is_inactive_is_suspended_by_a_person() -> None:
    raw = workload(active=False, owner=("JobSet", "tune", "uid-tune"))
    (gang,) = gangs_of(job_set(), raw).values()
    assert (gang.state, why(gang).code, why(gang).raw) == ("suspended", "SUSPENDED", "spec.active is false")
    assert gang_of(job_set()).state == "suspended"


def test_plain_pods_know_the_size_of_their_group() -> None:
    notes = {"kueue.x-k8s.io/pod-group-total-count": "6"}
    gated = pods("llm", 0, 2, annotations=notes, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}], **GROUPED)
    gang = gang_of(*gated)
    assert (gang.wanted, gang.gated, gang.not_created) == (6, 2, 4)
