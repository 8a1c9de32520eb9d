"""The role of a pod in its gang, by the system that made it."""

from __future__ import annotations

import pytest

from fleet.adapters.kubernetes import decode
from fleet.adapters.kubernetes.gangrole import role_of

LWS = "leaderworkerset.sigs.k8s.io/"


@pytest.mark.parametrize(
    ("labels", "role"),
    [
        ({"training.kubeflow.org/replica-type": "Worker"}, "worker"),
        ({"training.kubeflow.org/replica-type": "master", "training.kubeflow.org/job-role": "master"}, "master"),
        ({"training.kubeflow.org/job-role": "launcher"}, "launcher"),
        ({"ray.io/node-type": "head", "ray.io/group": "headgroup"}, "head"),
        ({"ray.io/node-type": "worker", "ray.io/group": "h100-group"}, "h100-group"),
        ({"ray.io/node-type": "worker"}, "worker"),
        ({LWS + "name": "serve", LWS + "worker-index": "0"}, "leader"),
        ({LWS + "name": "serve", LWS + "worker-index": "3"}, "worker"),
        ({LWS + "name": "serve"}, ""),
        ({"jobset.sigs.k8s.io/replicatedjob-name": "ps", "training.kubeflow.org/job-name": "x"}, "ps"),
        ({"spark-role": "executor"}, "executor"),
        ({"app": "llm-worker-3"}, ""),
        ({}, ""),
    ],
)
def test_a_role_is_what_the_maker_of_the_pod_calls_it(labels: dict[str, str], role: str) -> None:
    assert role_of(labels, {}) == role


def test_volcano_and_yunikorn_say_it_in_annotations() -> None:
    assert role_of({}, {"volcano.sh/task-spec": "trainer"}) == "trainer"
    assert role_of({}, {"yunikorn.apache.org/task-group-name": "group-a"}) == "group-a"


def test_a_decoded_pod_has_its_role() -> None:
    labels = {"training.kubeflow.org/replica-type": "Worker", "training.kubeflow.org/job-name": "llm"}
    pod = decode.pod({"metadata": {"name": "llm-worker-0", "namespace": "train", "labels": labels}})
    assert (pod.gang, pod.role) == ("train/llm", "worker")
