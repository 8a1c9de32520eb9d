"""Jobs that are suspended lose their pods after their grace periods, and get them back when they are resumed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.patience import until
from tests.unit.simulator.client import MERGE, Client

Json = dict[str, Any]
POD: Json = {
    "restartPolicy": "Never",
    "terminationGracePeriodSeconds": 20,
    "containers": [{"name": "main", "image": "train:1", "command": ["sleep", "infinity"]}],
}
WORK: Json = {"parallelism": 2, "completions": 2, "template": {"spec": POD}}
KINDS: dict[str, tuple[str, Json, Json, Json]] = {
    "jobs": ("batch/v1", WORK, {"suspend": True}, {"suspend": False}),
    "jobsets": (
        "jobset.x-k8s.io/v1alpha2",
        {"replicatedJobs": [{"name": "w", "replicas": 2, "template": {"spec": WORK | {"parallelism": 1}}}]},
        {"suspend": True},
        {"suspend": False},
    ),
    "trainjobs": (
        "trainer.kubeflow.org/v1alpha1",
        {"runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2}},
        {"suspend": True},
        {"suspend": False},
    ),
    "pytorchjobs": (
        "kubeflow.org/v1",
        {"pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": POD}}}},
        {"runPolicy": {"suspend": True}},
        {"runPolicy": {"suspend": False}},
    ),
}


def running(fleet: Client) -> list[str]:
    """UIDs of the pods of the job that run and are not ending."""
    pods = fleet.get("/api/v1/namespaces/default/pods")["items"]
    mine = [p for p in pods if p["metadata"]["name"].startswith("llm-") and p["status"]["phase"] == "Running"]
    return sorted(p["metadata"]["uid"] for p in mine if "deletionTimestamp" not in p["metadata"])


def there(fleet: Client) -> int:
    pods = fleet.get("/api/v1/namespaces/default/pods")["items"]
    return sum(p["metadata"]["name"].startswith("llm-") for p in pods)


@pytest.mark.parametrize("plural", KINDS)
def test_a_suspended_job_has_no_pods_and_a_resumed_one_has_new_ones(fleet: Client, plural: str) -> None:
    version, spec, suspend, resume = KINDS[plural]
    path = f"/apis/{version}/namespaces/default/{plural}"
    made = fleet.call("POST", path, {"metadata": {"name": "llm"}, "spec": spec})
    assert made.status == 201, made.text
    until(lambda: len(running(fleet)) == 2)
    first = running(fleet)
    answer = fleet.call("PATCH", f"{path}/llm", {"spec": suspend}, MERGE)
    assert answer.status == 200 and answer.json["metadata"]["generation"] == 2
    until(lambda: there(fleet) == 0)
    assert fleet.call("PATCH", f"{path}/llm", {"spec": resume}, MERGE).status == 200
    until(lambda: len(running(fleet)) == 2)
    assert not set(first) & set(running(fleet))
    assert fleet.call("DELETE", f"{path}/llm").status == 200
    until(lambda: there(fleet) == 0)


def test_pods_of_a_suspended_job_count_as_no_failure(fleet: Client) -> None:
    path = "/apis/batch/v1/namespaces/default/jobs"
    fleet.call("POST", path, {"metadata": {"name": "llm"}, "spec": WORK | {"backoffLimit": 0}})
    until(lambda: len(running(fleet)) == 2)
    fleet.call("PATCH", f"{path}/llm", {"spec": {"suspend": True}}, MERGE)
    until(lambda: there(fleet) == 0)
    status = fleet.get(f"{path}/llm")["status"]
    told = {c["type"]: c["status"] for c in status["conditions"]}
    assert told == {"Suspended": "True"} and status.get("failed", 0) == 0
