"""Which gang a pod belongs to, from the labels and annotations that schedulers and operators leave on it.

Decides which objects the pod names, the most specific first: a scheduler's pod group, then the workload that made the
pods. Refuses to guess from owner chains or name prefixes, and to look whether the object exists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fleet.ports.gangs import System, key_of
from fleet.ports.shapes import mapping, text

_LWS_NAME, _LWS_INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"

# A pod group of a gang scheduler: looked up in the labels and the annotations, in this order.
_POD_GROUPS: tuple[tuple[str, System, str], ...] = (
    ("scheduling.x-k8s.io/pod-group", "coscheduling", "PodGroup"),
    ("pod-group.scheduling.sigs.k8s.io", "coscheduling", "PodGroup"),
    ("scheduling.k8s.io/group-name", "volcano", "PodGroup"),
    ("scheduling.volcano.sh/group-name", "volcano", "PodGroup"),
    ("pod-group-name", "kai", "PodGroup"),
    ("kueue.x-k8s.io/pod-group-name", "kueue", "Workload"),
    ("yunikorn.apache.org/app-id", "yunikorn", "Application"),
)
# The workload whose pods start together, and what admits them.
_WORKLOADS: tuple[tuple[str, System, str], ...] = (
    ("training.kubeflow.org/job-name", "kubeflow", "PyTorchJob"),
    ("jobset.sigs.k8s.io/jobset-name", "jobset", "JobSet"),
    ("ray.io/cluster", "ray", "RayCluster"),
    ("volcano.sh/job-name", "volcano", "Job"),
    ("applicationId", "yunikorn", "Application"),
    ("kueue.x-k8s.io/workload", "kueue", "Workload"),
)


_TRAINING, _OPERATOR = "training.kubeflow.org/job-name", "training.kubeflow.org/operator-name"
# The operators of one family label their pods alike, and say which of them they are.
_MADE_BY = {
    "mpi-operator": "MPIJob",
    "mpijob-controller": "MPIJob",
    "tfjob-controller": "TFJob",
    "xgboostjob-controller": "XGBoostJob",
    "paddlejob-controller": "PaddleJob",
    "jaxjob-controller": "JAXJob",
}


def links_of(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, Any]
) -> tuple[str, ...]:
    """Keys (`fleet.ports.gangs.key_of`) of the objects that the pod names; empty when it names none."""
    return tuple(dict.fromkeys(_named(namespace, labels, annotations, spec)))


def _named(
    namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, Any]
) -> Iterator[str]:
    yield from _of(_POD_GROUPS, namespace, labels, annotations)
    if native := _native(spec):
        yield key_of("native", "PodGroup", namespace, native)
    if replica := _replica(labels):
        yield key_of("lws", "LeaderWorkerSet", namespace, replica)
    yield from _of(_WORKLOADS, namespace, labels, annotations)


def _of(
    keys: tuple[tuple[str, System, str], ...],
    namespace: str,
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
) -> Iterator[str]:
    for label, system, kind in keys:
        name = labels.get(label) or annotations.get(label)
        if name:
            if label == _TRAINING:
                kind = _MADE_BY.get(labels.get(_OPERATOR, ""), kind)
            # YuniKorn numbers its applications across namespaces
            yield key_of(system, kind, "" if system == "yunikorn" else namespace, name)


def _native(spec: Mapping[str, Any]) -> str:
    """The scheduler's own pod groups: `schedulingGroup` since 1.36, `workloadRef` in 1.35."""
    group = text(mapping(spec.get("schedulingGroup")).get("podGroupName"))
    if group:
        return group
    workload = mapping(spec.get("workloadRef"))
    parts = [text(workload.get(key)) for key in ("name", "podGroup", "podGroupReplicaKey")]
    return ".".join(part for part in parts if part)


def _replica(labels: Mapping[str, str]) -> str:
    """Each replica of a LeaderWorkerSet is a gang of its own."""
    name = labels.get(_LWS_NAME, "")
    index = labels.get(_LWS_INDEX, "")
    return f"{name}-{index}" if name and index else name
