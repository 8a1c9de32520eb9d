"""Which gang a pod belongs to, from the labels and annotations that schedulers and operators leave on it.

Decides the name only (`namespace/name`), by the most specific link first: a scheduler's pod group, then the workload
that made the pods. Refuses to guess from owner chains or name prefixes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.adapters.kubernetes.shapes import mapping, text

_LWS_NAME, _LWS_INDEX = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/group-index"

# A pod group of a gang scheduler: looked up in the annotations and the labels, in this order.
_POD_GROUPS = (
    "scheduling.x-k8s.io/pod-group",
    "pod-group.scheduling.sigs.k8s.io",
    "scheduling.k8s.io/group-name",
    "scheduling.volcano.sh/group-name",
    "pod-group-name",
    "kueue.x-k8s.io/pod-group-name",
    "yunikorn.apache.org/app-id",
)
# The workload whose pods start together when no scheduler's group is named.
_WORKLOADS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "ray.io/cluster",
    "volcano.sh/job-name",
    "applicationId",
)


def gang_of(namespace: str, labels: Mapping[str, str], annotations: Mapping[str, str], spec: Mapping[str, Any]) -> str:
    """`namespace/name` of the pod's gang, or an empty string."""
    name = _first(_POD_GROUPS, labels, annotations) or _native(spec) or _replica(labels)
    name = name or _first(_WORKLOADS, labels, annotations)
    return f"{namespace}/{name}" if name else ""


def _first(keys: tuple[str, ...], labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    for key in keys:
        name = labels.get(key) or annotations.get(key)
        if name:
            return name
    return ""


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
