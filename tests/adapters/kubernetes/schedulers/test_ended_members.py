"""Gangs whose members end one by one: the rest is at work, waits for nobody and holds nothing for nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.adapters.kubernetes.schedulers import (
    test_coscheduling,
    test_jobset,
    test_kai,
    test_kubeflow,
    test_kueue,
    test_native,
    test_volcano,
)
from tests.adapters.kubernetes.schedulers.raw import Json, at, condition, gang_of, pod, pods, template, why
from tests.unit.gangs.scenes import a_room


def volcano_job(ended: int) -> tuple[list[Json], Json]:
    made = test_volcano.job("Running")
    made["status"]["taskStatusCount"] = {"worker": {"phase": {"Succeeded": ended}}, "master": {"phase": {"Running": 1}}}
    group = test_volcano.group("Running", owner=("Job", "llm", "uid-llm"))
    group["status"]["succeeded"] = ended
    master = {**test_volcano.OF_JOB["annotations"], "volcano.sh/task-spec": "master"}
    return [made, group, pod("llm-master-0", "gpu-9", gpus=0, annotations=master)], test_volcano.OF_JOB


def volcano_group(ended: int) -> tuple[list[Json], Json]:
    group = test_volcano.group("Running")
    group["status"]["succeeded"] = ended
    return [group], {"annotations": test_volcano.GROUP}


def scheduler_plugins(ended: int) -> tuple[list[Json], Json]:
    return [test_coscheduling.group("Running", succeeded=ended)], {"labels": test_coscheduling.LABEL}


def job_set(ended: int) -> tuple[list[Json], Json]:
    """Four jobs of one pod each."""
    made = test_jobset.job_set(jobs=[test_jobset.job(replicas=4, parallelism=1)])
    counts = {"ready": 0, "active": 4 - ended, "failed": 0, "suspended": 0}
    made["status"]["replicatedJobsStatus"] = [{"name": "node", "succeeded": ended, **counts}]
    return [made], test_jobset.OF_SET


def pytorch_job(ended: int) -> tuple[list[Json], Json]:
    made = test_kubeflow.pytorch(workers=4, policy={"schedulingPolicy": {"minAvailable": 5}})
    made["spec"]["pytorchReplicaSpecs"]["Master"]["template"] = template(0)
    made["status"]["replicaStatuses"] = {"Worker": {"succeeded": ended}, "Master": {"active": 1}}
    labels = {**test_kubeflow.OF_JOB["labels"], "training.kubeflow.org/replica-type": "master"}
    return [made, pod("llm-master-0", "gpu-9", gpus=0, labels=labels)], test_kubeflow.OF_JOB


def kueue(ended: int) -> tuple[list[Json], Json]:
    status = {"reclaimablePods": [{"name": "main", "count": ended}]}
    return [test_kueue.workload(*test_kueue.admitted(), status=status)], test_kueue.GROUPED


KINDS = [volcano_job, volcano_group, scheduler_plugins, job_set, pytorch_job, kueue]
Kind = Callable[[int], tuple[list[Json], Json]]


@pytest.mark.parametrize("kind", KINDS)
def test_the_rest_of_a_gang_is_at_work(kind: Kind) -> None:
    objects, names = kind(3)
    gang = gang_of(*objects, *pods("llm", 1, **names))
    assert (gang.state, gang.gpus_held, gang.gpus_held_idle) == ("running", 8, 0)
    assert (gang.missing, gang.not_created, gang.gpus_wanted) == ((), 0, 8)


@pytest.mark.parametrize("kind", KINDS)
def test_a_member_that_is_lost_from_the_rest_is_waited_for(kind: Kind) -> None:
    objects, names = kind(2)
    gang = gang_of(*objects, *pods("llm", 1, 1, **names))
    assert (gang.state, gang.gpus_held_idle, sum(one.count for one in gang.missing)) == ("partial", 8, 1)
    assert why(gang, a_room("gpu-0", used=8), a_room("gpu-1")).fits is True


@pytest.mark.parametrize("kind", KINDS)
def test_one_that_lost_its_members_before_any_ended_is_held_idle(kind: Kind) -> None:
    objects, names = kind(0)
    assert gang_of(*objects, *pods("llm", 1, 3, **names)).gpus_held_idle == 8


WELL: Json = {"phase": "Succeeded"}


def kai_group() -> tuple[list[Json], Json]:
    """Of a batch Job, which no reader knows: only its pods tell that some ended."""
    return [test_kai.group(minMember=4)], test_kai.NAMED


def native_group() -> tuple[list[Json], Json]:
    return [test_native.group()], test_native.GROUPED


def parallel_job() -> tuple[list[Json], Json]:
    """A set counts jobs, and a job counts as ended when all of its pods have."""
    return [test_jobset.job_set()], test_jobset.OF_SET


UNTOLD = [kai_group, native_group, parallel_job]


@pytest.mark.parametrize("kind", UNTOLD)
def test_members_that_ended_well_are_not_waited_for_where_only_their_pods_tell(
    kind: Callable[[], tuple[list[Json], Json]],
) -> None:
    objects, names = kind()
    done = [pod(f"done-{n}", f"gpu-{n}", status=WELL, **names) for n in range(2)]
    gang = gang_of(*objects, *done, *pods("llm", 2, **names))
    assert (gang.state, gang.minimum, gang.gpus_held, gang.gpus_held_idle, gang.nodes) == (
        "running", 2, 16, 0, ("gpu-0", "gpu-1"),
    )  # fmt: skip
    lost = gang_of(*objects, *done[:1], *pods("llm", 2, **names))
    assert (lost.state, lost.minimum, lost.gpus_held_idle) == ("partial", 3, 16)
    failed = [pod(f"bad-{n}", "gpu-9", status={"phase": "Failed"}, **names) for n in range(2)]
    assert gang_of(*objects, *failed, *pods("llm", 2, **names)).state == "partial"


EVICTED = {**WELL, "conditions": [condition("DisruptionTarget", True, "EvictionByEvictionAPI")]}


@pytest.mark.parametrize("facts", [{"status": EVICTED}, {"status": WELL, "deletionTimestamp": at(5)}])
def test_one_that_was_evicted_and_ended_without_an_error_is_waited_for(facts: Json) -> None:
    objects, names = kai_group()
    gang = gang_of(*objects, pod("gone", "gpu-9", **facts, **names), *pods("llm", 3, **names))
    assert (gang.state, gang.minimum) == ("partial", 4)


@pytest.mark.parametrize("kind", UNTOLD)
def test_a_gang_of_which_all_pods_ended_well_is_over(kind: Callable[[], tuple[list[Json], Json]]) -> None:
    objects, names = kind()
    gang = gang_of(*objects, *(pod(f"done-{n}", "gpu-0", status=WELL, **names) for n in range(4)))
    assert (gang.state, gang.gpus_held) == ("finished", 0)


def test_pods_that_come_and_go_under_a_group_of_one_leave_its_minimum_alone() -> None:
    names = test_kai.NAMED
    done = [pod(f"done-{n}", "gpu-0", status=WELL, **names) for n in range(9)]
    gang = gang_of(test_kai.group(minMember=1), *done, *pods("llm", 0, 2, **names))
    assert (gang.state, gang.minimum) == ("waiting", 1)


@pytest.mark.parametrize("kind", [job_set, kueue])
def test_a_gang_of_which_all_ended_is_over_before_its_controller_says_so(kind: Kind) -> None:
    objects, _ = kind(4)
    assert gang_of(*objects).state == "finished"
