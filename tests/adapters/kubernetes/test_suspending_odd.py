"""What speaks against suspending a job, and API servers that lack a kind or do not let us."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.jobkinds import BY_KIND
from fleet.adapters.kubernetes.suspending import KubernetesSuspends
from fleet.ports.errors import MissingRight, TemporaryError
from fleet.ports.gangs import Member, Need
from fleet.ports.suspends import Job
from tests.adapters.kubernetes.scripted import Script, answer, status
from tests.domain.lifecycle.world import a_pod

JOB, SET = (
    "GET /apis/batch/v1/namespaces/train/jobs/llm-0",
    "GET /apis/jobset.x-k8s.io/v1alpha2/namespaces/train/jobsets/llm",
)
WORKLOADS = "GET /apis/kueue.x-k8s.io/v1beta2/namespaces/train/workloads"
JOBSET, KUEUE = ("jobset.x-k8s.io", "v1alpha2"), ("kueue.x-k8s.io", "v1beta2")
POD = a_pod(
    "w-0", "gpu-1", owner="Job/llm-0", member=Member("train/w-0", "u", "gpu-1", "running", Need(), owner_uid="j")
)


def served(script: Script, *groups: tuple[str, str]) -> None:
    script.on("GET /apis", answer(200, {"groups": [{"name": g, "versions": [{"version": v}]} for g, v in groups]}))


def body(uid: str, spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    named = {"uid": uid, "name": "llm", "namespace": "train", "resourceVersion": "7", "generation": 3, **meta}
    return {"metadata": named, "spec": spec or {}}


def under(kind: str, uid: str, group: str) -> dict[str, Any]:
    return {
        "ownerReferences": [{"apiVersion": f"{group}/v1", "kind": kind, "name": "llm", "uid": uid, "controller": True}]
    }


def found(api: ApiServer) -> Job | None:
    return KubernetesSuspends(api, {"train": []}).job_of(POD)


@pytest.mark.parametrize(
    ("kind", "spec", "words"),
    [
        ("JobSet", {"suspend": "yes"}, "does not tell by spec.suspend"),
        ("PyTorchJob", {"runPolicy": {"suspend": 1}}, "does not tell by spec.runPolicy.suspend"),
        ("Workload", {"active": "no"}, "does not tell by spec.active"),
        ("JobSet", {"managedBy": "kueue.x-k8s.io/multikueue"}, "is managed by kueue.x-k8s.io/multikueue"),
        ("PyTorchJob", {"runPolicy": {"managedBy": "other"}}, "is managed by other"),
        ("RayJob", {}, "KubeRay suspends no such job"),
        ("RayJob", {"shutdownAfterJobFinishes": True, "clusterSelector": {"a": "b"}}, "a Ray cluster of others"),
        ("RayJob", {"shutdownAfterJobFinishes": True, "managedBy": "ray.io/kuberay-operator"}, ""),
        ("Job", {"suspend": None}, ""),
    ],
)
def test_what_speaks_against_it(api: ApiServer, script: Script, kind: str, spec: dict[str, Any], words: str) -> None:
    of = BY_KIND[kind]
    served(script, (of.group, of.versions[-1]))
    version = "v1" if of.group == "batch" else of.versions[-1]
    script.on(f"GET /apis/{of.group}/{version}/namespaces/train/{of.plural}/llm", answer(200, body("u", spec)))
    seen = KubernetesSuspends(api, {"train": []}).read(of.kind, "train", "llm")
    assert words in seen.refusal and bool(words) == bool(seen.refusal)
    assert not seen.suspended, "an odd value is no yes"


@pytest.mark.parametrize(
    ("kind", "status_of", "ended"),
    [
        ("Job", {"conditions": [{"type": "Complete", "status": "True"}]}, True),
        ("Job", {"conditions": [{"type": "Suspended", "status": "True"}]}, False),
        ("JobSet", {"conditions": [{"type": "Completed", "status": "True"}]}, True),
        ("TrainJob", {"conditions": [{"type": "Failed", "status": "False"}]}, False),
        ("PyTorchJob", {"conditions": [{"type": "Succeeded", "status": "True"}]}, True),
        ("RayJob", {"jobDeploymentStatus": "Failed"}, True),
        ("RayJob", {"jobDeploymentStatus": "Suspended"}, False),
        ("Workload", {"conditions": [{"type": "Finished", "status": "True"}]}, True),
    ],
)
def test_when_a_job_has_ended(
    api: ApiServer, script: Script, kind: str, status_of: dict[str, Any], ended: bool
) -> None:
    of = BY_KIND[kind]
    served(script, (of.group, of.versions[-1]))
    path = f"GET /apis/{of.group}/{of.versions[-1]}/namespaces/train/{of.plural}/llm"
    script.on(path, answer(200, body("u") | {"status": status_of}))
    assert KubernetesSuspends(api, {"train": []}).read(of.kind, "train", "llm").ended == ended


def test_a_maker_whose_kind_is_not_served_keeps_its_job(api: ApiServer, script: Script) -> None:
    served(script)
    script.on(JOB, answer(200, body("j", **under("JobSet", "s", "jobset.x-k8s.io"))))
    job = found(api)
    assert job is not None and job.refusal == "is made by JobSet llm, which may start and stop it itself"


def test_a_kind_that_is_not_served_now_is_no_word_on_its_objects(api: ApiServer, script: Script) -> None:
    """Its definition may be away for a moment; whoever waits to start a job again must not take it for gone."""
    served(script)
    with pytest.raises(TemporaryError):
        KubernetesSuspends(api, {"train": []}).read("JobSet", "train", "llm")


def test_a_maker_of_the_same_word_in_another_group_is_another_kind(api: ApiServer, script: Script) -> None:
    served(script, JOBSET)
    script.on(JOB, answer(200, body("j", **under("JobSet", "s", "jobs.example.org"))))
    job = found(api)
    assert (
        job is not None
        and "is made by JobSet llm" in job.refusal
        and not [a for a in script.asked if "jobsets" in a.path]
    )


def test_pods_of_no_kind_of_ours_cost_no_request(api: ApiServer, script: Script) -> None:
    port = KubernetesSuspends(api, {"train": []})
    assert port.job_of(replace(POD, owner="ReplicaSet/web")) is None
    assert port.job_of(replace(POD, member=None)) is None, "without the UID of its maker nothing is sure"
    assert script.asked == []


def test_two_workloads_of_one_job_are_nobodys_guess(api: ApiServer, script: Script) -> None:
    served(script, JOBSET, KUEUE)
    script.on(JOB, answer(200, body("j", **under("JobSet", "s", "jobset.x-k8s.io"))))
    script.on(SET, answer(200, body("s")))
    script.on(WORKLOADS, answer(200, {"items": [body("a"), body("b")]}))
    job = found(api)
    assert job is not None and (job.kind, job.refusal) == (
        "JobSet",
        "is started and stopped by Kueue and has 2 Workloads",
    )
    (asked,) = [one for one in script.asked if one.path.endswith("workloads")]
    assert asked.query["labelSelector"] == "kueue.x-k8s.io/job-uid in (j,s)"


@pytest.mark.parametrize(("code", "error"), [(403, MissingRight), (503, TemporaryError)])
def test_whether_kueue_keeps_it_must_be_known(
    api: ApiServer, script: Script, code: int, error: type[Exception]
) -> None:
    served(script, KUEUE)
    script.on(JOB, answer(200, body("j")))
    script.on(WORKLOADS, status(code, "no"))
    with pytest.raises(error):
        found(api)


def test_the_rights_are_asked_for_the_kinds_that_are_served(api: ApiServer, script: Script) -> None:
    served(script, JOBSET)
    review = "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    script.on(review, answer(201, {"status": {"allowed": False}}))
    said = KubernetesSuspends(api, {"train": []}).check()
    asked = [one.split(" at ")[0].removeprefix("The credential may not ") for one in said]
    assert asked == [
        "get jobsets.jobset.x-k8s.io in namespace train", "patch jobsets.jobset.x-k8s.io in namespace train",
        "get jobs.batch in namespace train", "patch jobs.batch in namespace train",
    ]  # fmt: skip
