"""JobSet: what makes the pods, whoever places them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.adapters.kubernetes.schedulers.raw import (
    Json,
    at,
    condition,
    gang_of,
    pods,
    resource,
    said_by,
    template,
    when,
    why,
    words,
)
from tests.unit.gangs.scenes import OUT, a_room

OF_SET: Json = {"labels": {"jobset.sigs.k8s.io/jobset-name": "llm", "jobset.sigs.k8s.io/replicatedjob-name": "node"}}


def job(name: str = "node", replicas: int | None = 1, gpus: int = 8, pod: Json | None = None, **spec: Any) -> Json:
    told = {} if replicas is None else {"replicas": replicas}
    return {"name": name, **told, "template": {"spec": {**spec, "template": pod or template(gpus)}}}


def job_set(*conditions: Json, jobs: list[Json] | None = None, suspend: bool | None = None, **meta: Any) -> Json:
    spec: Json = {"replicatedJobs": jobs or [job(parallelism=4)]}
    if suspend is not None:
        spec["suspend"] = suspend
    return resource("jobset.x-k8s.io/v1alpha2", "JobSet", "llm", spec, {"conditions": list(conditions)}, **meta)


def test_a_healthy_set_runs_all_its_pods() -> None:
    gang = gang_of(job_set(), *pods("llm", 4, **OF_SET))
    assert (gang.key, gang.title, gang.state) == ("jobset/JobSet/train/llm", "JobSet llm", "running")
    assert (gang.wanted, gang.minimum, gang.gpus_held, gang.guarantee) == (4, 4, 32, "none")


def test_a_set_without_a_scheduler_that_groups_it_starts_in_part() -> None:
    gang = gang_of(job_set(), *pods("llm", 2, 1, **OF_SET))
    assert (gang.state, gang.gpus_held_idle, gang.not_created, gang.unscheduled) == ("partial", 16, 1, 1)


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        (job(replicas=3, parallelism=4), 12),
        (job(replicas=None), 1),
        (job(replicas=2, parallelism=8, completions=4), 8),
        (job(replicas=0, parallelism=4), 0),
    ],
)
def test_its_pods_are_the_jobs_times_what_each_runs_at_once(told: Json, wanted: int) -> None:
    assert said_by(job_set(jobs=[told])).wanted == wanted


def chain(status: str = "Complete", succeeded: int = 0, suspend: bool | None = None) -> Json:
    """Data first, then a launcher when the data is there, then the nodes when the launcher is ready."""
    launcher = job("launcher", 1, 0) | {"dependsOn": [{"name": "data", "status": status}]}
    node = job(parallelism=4) | {"dependsOn": [{"name": "launcher", "status": "Ready"}]}
    raw = job_set(jobs=[job("data", 2, 0), launcher, node], suspend=suspend)
    raw["status"]["replicatedJobsStatus"] = [{"name": "data", "succeeded": succeeded}]
    return raw


def test_jobs_that_come_when_others_are_complete_are_not_waited_for_before() -> None:
    data = pods("data", 2, gpus=0, **OF_SET)
    gang = gang_of(chain(), *data)
    assert (gang.state, gang.wanted, gang.minimum, gang.gpus_held_idle) == ("running", 2, 2, 0)
    half = gang_of(chain(succeeded=1), *data[:1])
    assert (half.state, half.wanted, half.minimum) == ("running", 1, 1)
    then = gang_of(chain(succeeded=2))
    assert (then.state, then.wanted, then.minimum) == ("waiting", 5, 5)


def test_jobs_that_come_when_others_are_ready_are_of_the_same_gang() -> None:
    assert gang_of(chain("Ready")).wanted == 7


def test_a_suspended_set_asks_for_all_of_it() -> None:
    assert (gang_of(chain(suspend=True)).wanted, gang_of(chain(suspend=True)).gpus_wanted) == (7, 32)


def test_roles_are_its_jobs() -> None:
    one = said_by(job_set(jobs=[job("ps", 1, 0), job("worker", 2, 8, parallelism=2)]))
    assert [(part.role, part.wanted, part.need.gpus if part.need else None) for part in one.parts] == [
        ("ps", 1, 0),
        ("worker", 4, 8),
    ]


def test_a_quota_of_its_namespace_is_told_by_its_pods() -> None:
    gang = gang_of(job_set(), *pods("llm", 0, 4, waits="exceeded quota: gpus", **OF_SET))
    assert why(gang, a_room("a")).code == "QUOTA"


def test_pods_that_must_share_a_leaf_are_told_by_their_selector() -> None:
    near = template(8, nodeSelector={"topology.muster.dev/leaf": "1"})
    gang = gang_of(job_set(jobs=[job(parallelism=2, pod=near)]))
    rooms = [a_room(name, labels={"topology.muster.dev/leaf": leaf}) for name, leaf in (("a", "1"), ("b", "2"))]
    assert why(gang, *rooms).code == "EXCEEDS_MAX"


def test_scattered_gpus_are_fragmentation() -> None:
    gang = gang_of(job_set(jobs=[job()]))
    assert why(gang, a_room("a", used=4), a_room("b", used=4)).code == "FRAGMENTATION"


def test_the_sick_node_it_waits_for_is_named_before_its_pods_exist() -> None:
    gang = gang_of(job_set(jobs=[job(parallelism=2)]))
    assert [b.node for b in why(gang, a_room("a"), a_room("bad", out=OUT)).blockers] == ["bad"]


def test_a_restart_begins_a_new_wait() -> None:
    gang = gang_of(job_set(condition("RestartingJobSet", True, since=at(6))), *pods("llm", 0, 4, **OF_SET))
    assert (gang.state, gang.waits_since) == ("waiting", when(6))


def test_a_set_that_was_resumed_waits_since_then() -> None:
    resumed = condition("Suspended", False, "ResumeJobs", "jobset is resumed", since=at(7))
    assert said_by(job_set(resumed, suspend=False)).waits_since == when(7)
    assert said_by(job_set(resumed, suspend=True)).waits_since is None


def test_a_suspended_set_says_so_with_or_without_its_controller() -> None:
    assert words(said_by(job_set(suspend=True))) == [("SUSPENDED", "spec.suspend is true")]
    told = condition("Suspended", True, "SuspendedJobs", "jobset is suspended", since=at(5))
    gang = gang_of(job_set(told, suspend=True))
    assert (gang.state, why(gang).raw, why(gang).since) == ("suspended", "jobset is suspended", when(5))


@pytest.mark.parametrize("end", ["Completed", "Failed"])
def test_a_set_that_ended_is_over_whatever_else_still_holds(end: str) -> None:
    raw = job_set(condition("StartupPolicyCompleted", True), condition(end, True, since=at(8)))
    one = said_by(raw)
    assert (one.finished, one.ended_at, one.phase, gang_of(raw).state) == (True, when(8), end, "finished")


def test_pods_whose_set_is_gone_are_still_a_gang() -> None:
    gang = gang_of(*pods("llm", 1, 1, **OF_SET))
    assert (gang.key, gang.objects, gang.wanted) == ("jobset/JobSet/train/llm", (), 2)


def test_the_set_of_a_train_job_is_counted_and_the_train_job_named() -> None:
    job = resource("trainer.kubeflow.org/v1alpha1", "TrainJob", "tune", {"runtimeRef": {"name": "torch"}})
    gang = gang_of(job, job_set(owner=("TrainJob", "tune", "uid-tune")), *pods("llm", 4, **OF_SET))
    assert (gang.key, gang.title, gang.wanted) == ("jobset/JobSet/train/llm", "TrainJob tune", 4)
