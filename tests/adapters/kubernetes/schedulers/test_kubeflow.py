"""TrainJob and PyTorchJob."""

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
    template,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

OF_JOB: Json = {
    "labels": {"training.kubeflow.org/job-name": "llm", "training.kubeflow.org/replica-type": "worker"},
}
EIGHT = {"limits": {"nvidia.com/gpu": 8}}


def pytorch(*conditions: Json, policy: Json | None = None, workers: int | None = 3, **spec: Any) -> Json:
    count = {} if workers is None else {"replicas": workers}
    pod = spec.pop("template", template(8))
    specs = {"Master": {"replicas": 1, "template": pod}, "Worker": {**count, "template": pod}}
    body = {"pytorchReplicaSpecs": specs, "runPolicy": policy or {}, **spec}
    return resource("kubeflow.org/v1", "PyTorchJob", "llm", body, {"conditions": list(conditions)})


def train(*conditions: Json, nodes: int | None = 4, **spec: Any) -> Json:
    trainer = {"resourcesPerNode": EIGHT, **({} if nodes is None else {"numNodes": nodes})}
    body = {"runtimeRef": {"name": "torch-distributed"}, "trainer": trainer, **spec}
    return resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "llm", body, {"conditions": list(conditions)})


def test_a_healthy_job_runs_its_master_and_workers() -> None:
    running = pytorch(condition("Created", True), condition("Running", True))
    gang = gang_of(running, *pods("llm", 4, **OF_JOB))
    assert (gang.title, gang.state, gang.wanted, gang.minimum) == ("PyTorchJob llm", "running", 4, 4)
    assert said_by(running).phase == "Running"
    assert [(p.role, p.wanted) for p in said_by(running).parts] == [("master", 1), ("worker", 3)]


def test_a_job_placed_in_part_is_idle() -> None:
    gang = gang_of(pytorch(), *pods("llm", 2, 2, **OF_JOB))
    assert (gang.state, gang.gpus_held_idle) == ("partial", 16)


def test_its_scheduling_policy_names_the_minimum_and_the_queue() -> None:
    one = said_by(pytorch(policy={"schedulingPolicy": {"minAvailable": 2, "queue": "research"}}))
    assert (one.minimum, one.queue) == (2, "research")


def test_an_elastic_range_bounds_the_workers_alone() -> None:
    one = said_by(pytorch(workers=None, elasticPolicy={"minReplicas": 2, "maxReplicas": 8}))
    assert [(p.role, p.wanted, p.minimum, p.maximum) for p in one.parts] == [
        ("master", 1, None, None),
        ("worker", 1, 2, 8),
    ]
    assert one.minimum is None


@pytest.mark.parametrize("raw", [pytorch(workers=1), train(nodes=2)], ids=["PyTorchJob", "TrainJob"])
def test_room_is_judged_before_there_are_pods(raw: Json) -> None:
    rooms = [a_room("a"), a_room("b", used=8)]
    gang = gang_of(raw)
    assert (gang.state, gang.gpus_wanted, gang.not_created) == ("waiting", 16, 2)
    assert why(gang, *rooms).code == "CAPACITY"
    assert [b.node for b in why(gang, *rooms, a_room("bad", out=OUT)).blockers] == ["bad"]
    assert why(gang, a_room("a", used=4), a_room("b", used=4), a_room("c")).code == "FRAGMENTATION"


def test_a_quota_of_the_namespace_is_told_by_the_pods() -> None:
    gang = gang_of(pytorch(), *pods("llm", 0, 4, waits="exceeded quota: gpus", **OF_JOB))
    assert why(gang, a_room("a")).code == "QUOTA"


def test_pods_that_must_share_a_leaf_are_told_by_their_selector() -> None:
    gang = gang_of(pytorch(workers=1, template=template(8, nodeSelector={"leaf": "1"})))
    assert why(gang, a_room("a", labels={"leaf": "1"}), a_room("b", labels={"leaf": "2"})).code == "EXCEEDS_MAX"


def test_a_restart_begins_a_new_wait() -> None:
    assert said_by(pytorch(condition("Restarting", True, since=at(6)))).waits_since == when(6)


def test_the_end_of_a_suspension_begins_a_new_wait() -> None:
    resumed = condition("Suspended", False, "Resumed", since=at(7))
    assert said_by(pytorch(resumed)).waits_since == when(7)
    assert said_by(train(resumed)).waits_since == when(7)
    assert said_by(train(resumed, suspend=True)).waits_since is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (pytorch(policy={"suspend": True}), "runPolicy.suspend is true"),
        (train(suspend=True), "spec.suspend is true"),
    ],
    ids=["PyTorchJob", "TrainJob"],
)
def test_a_suspended_job_says_so(raw: Json, text: str) -> None:
    gang = gang_of(raw)
    assert (gang.state, words(gang)) == ("suspended", [("SUSPENDED", text)])


@pytest.mark.parametrize(
    ("raw", "phase"),
    [
        (pytorch(condition("Running", False), condition("Succeeded", True, since=at(8))), "Succeeded"),
        (pytorch(condition("Restarting", False), condition("Failed", True, since=at(8))), "Failed"),
        (train(condition("Suspended", False), condition("Complete", True, since=at(8))), "Complete"),
        (train(condition("Failed", True, since=at(8))), "Failed"),
    ],
)
def test_a_job_that_ended_is_over(raw: Json, phase: str) -> None:
    one = said_by(raw)
    assert (one.finished, one.ended_at, one.phase, gang_of(raw).state) == (True, when(8), phase, "finished")


def test_a_healthy_train_job_is_counted_by_its_nodes() -> None:
    one = said_by(train())
    assert [(p.role, p.wanted, p.need.gpus if p.need else 0) for p in one.parts] == [("node", 4, 8)]
    assert (one.wanted, one.places, gang_of(train()).title) == (4, False, "TrainJob llm")


def test_a_train_job_that_leaves_its_nodes_to_the_runtime_tells_none() -> None:
    one = said_by(train(nodes=None))
    assert (one.wanted, one.parts) == (None, ())


# -- a TrainJob, whose pods come by the JobSet of its runtime ----------------------------------------------------------

OF_SET: Json = {"labels": {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/replicatedjob-name": "node"}}


def made_set(*conditions: Json, suspend: bool = False, nodes: int = 4, **pod: Any) -> Json:
    job = {"name": "node", "template": {"spec": {"parallelism": nodes, "template": template(8, **pod)}}}
    spec = {"suspend": suspend, "replicatedJobs": [job]}
    raw = resource(
        "jobset.x-k8s.io/v1alpha2",
        "JobSet",
        "llm",
        spec,
        {"conditions": list(conditions)},
        owner=("TrainJob", "llm", "uid-llm"),
    )
    raw["metadata"]["uid"] = "uid-set"
    return raw


def test_a_set_suspended_for_its_train_job_is_one_gang() -> None:
    gang = gang_of(train(suspend=True), made_set(suspend=True))
    assert (gang.key, gang.title, gang.state) == ("jobset/JobSet/train/llm", "TrainJob llm", "suspended")


def test_a_train_job_runs_when_all_pods_of_its_set_do() -> None:
    gang = gang_of(train(), made_set(), *pods("llm", 4, **OF_SET))
    assert (gang.title, gang.state, gang.wanted, gang.gpus_held) == ("TrainJob llm", "running", 4, 32)


def test_a_train_job_placed_in_part_is_idle() -> None:
    gang = gang_of(train(), made_set(), *pods("llm", 3, 1, **OF_SET))
    assert (gang.state, gang.gpus_held_idle, gang.missing[0].count) == ("partial", 24, 1)


def test_a_quota_of_a_train_jobs_namespace_is_told_by_its_pods() -> None:
    gang = gang_of(train(), made_set(), *pods("llm", 0, 4, waits="exceeded quota: gpus", **OF_SET))
    assert why(gang, a_room("a")).code == "QUOTA"


def test_the_leaf_of_a_train_job_is_told_by_its_runtime() -> None:
    gang = gang_of(train(nodes=2), made_set(nodes=2, nodeSelector={"leaf": "1"}))
    assert why(gang, a_room("a", labels={"leaf": "1"}), a_room("b", labels={"leaf": "2"})).code == "EXCEEDS_MAX"


def test_a_restart_of_a_train_jobs_set_begins_a_new_wait() -> None:
    restarted = made_set(condition("RestartingJobSet", True, since=at(6)))
    gang = gang_of(train(), restarted, *pods("llm", 0, 4, **OF_SET))
    assert (gang.state, gang.waits_since) == ("waiting", when(6))


def test_pods_of_a_train_job_that_ended_still_hold_their_gpus() -> None:
    over = train(condition("Complete", True, since=at(8)))
    gang = gang_of(over, made_set(condition("Completed", True, since=at(8))), *pods("llm", 1, **OF_SET))
    assert (gang.state, gang.gpus_held, gang.waits_since) == ("finished", 8, None)


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        ("mpi-operator", "MPIJob"),
        ("mpijob-controller", "MPIJob"),
        ("tfjob-controller", "TFJob"),
        ("pytorchjob-controller", "PyTorchJob"),
        ("", "PyTorchJob"),
    ],
)
def test_pods_of_other_training_jobs_are_called_by_the_kind_of_theirs(operator: str, kind: str) -> None:
    labels = {**OF_JOB["labels"], "training.kubeflow.org/operator-name": operator}
    assert gang_of(*pods("llm", 2, labels=labels)).title == f"{kind} llm"


def test_two_training_jobs_of_one_name_and_two_kinds_are_two_gangs() -> None:
    mpi: Json = {"labels": {**OF_JOB["labels"], "training.kubeflow.org/operator-name": "mpi-operator"}}
    found = gangs_of(pytorch(), *pods("llm", 4, **OF_JOB), *pods("llm-mpi", 2, **mpi))
    assert {gang.title: gang.placed for gang in found.values()} == {"PyTorchJob llm": 4, "MPIJob llm": 2}


def test_pods_whose_job_is_gone_are_still_a_gang() -> None:
    assert gang_of(*pods("llm", 1, 1, **OF_JOB)).key == "kubeflow/PyTorchJob/train/llm"
