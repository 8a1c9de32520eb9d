"""Which part a pod plays in its gang, from the labels and annotations that schedulers and operators leave on it.

Decides one word, in lower case, by the system that made the pod. Refuses to guess from the pod's name: where no label
tells, there is no role.
"""

from __future__ import annotations

from collections.abc import Mapping

# LeaderWorkerSet numbers its pods: the first of a group is its leader.
_LWS_NAME, _LWS_WORKER = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index"
# The most specific first: a JobSet may be made by a trainer, and a Ray cluster has groups of workers that differ.
_NAMED = (
    "ray.io/group",
    "ray.io/node-type",
    "training.kubeflow.org/replica-type",
    "training.kubeflow.org/job-role",
    "jobset.sigs.k8s.io/replicatedjob-name",
    "volcano.sh/task-spec",
    "yunikorn.apache.org/task-group-name",
    "spark-role",
    "kai.scheduler/subgroup-name",
    "kueue.x-k8s.io/podset",
)


def role_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    """`worker`, `master`, `launcher`, `leader`, the name of a replicated job or task, or an empty string."""
    if _LWS_NAME in labels:
        index = labels.get(_LWS_WORKER, "")
        return "" if not index else "leader" if index == "0" else "worker"
    head = labels.get("ray.io/node-type", "")
    if head == "head":  # its group is called `headgroup` by convention only
        return head
    for key in _NAMED:
        word = labels.get(key) or annotations.get(key)
        if word:
            return word.strip().lower()[:63]
    return ""
