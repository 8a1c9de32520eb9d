"""The kinds of jobs that a field of their own stops whole, and what each says about it.

Decides the field, the words by which each kind has ended, and which specs their controllers refuse to suspend. Refuses
to read an odd value as a plain no.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from fleet.ports.shapes import mapping, text
from fleet.ports.suspends import JobKind

Raw = dict[str, Any]
OWN = ("", "jobset.sigs.k8s.io/jobset-controller", "trainer.kubeflow.org/trainjob-controller",
       "kubeflow.org/training-operator", "ray.io/kuberay-operator", "kubernetes.io/job-controller")  # fmt: skip
"""Values of `managedBy` by which a kind's own controller follows its field."""


@dataclass(frozen=True, slots=True)
class Kind:
    """`versions`: the first that the server has is used. `path`: of the field in the spec; `runs`: its yes means a no.

    `ends`: conditions that are true, or RayJob's word, after which nothing of it runs any more.
    """

    name: str
    group: str
    plural: str
    versions: tuple[str, ...]
    path: tuple[str, ...] = ("suspend",)
    ends: tuple[str, ...] = ("Complete", "Completed", "Succeeded", "Failed")
    runs: bool = False

    @property
    def kind(self) -> JobKind:
        return cast("JobKind", self.name)

    @property
    def resource(self) -> str:
        return f"{self.plural}.{self.group}"

    @property
    def field(self) -> str:
        return ".".join(("spec", *self.path))

    def told(self, spec: Raw) -> bool | None:
        """Is it suspended? None: the field holds no yes and no no."""
        for part in self.path[:-1]:
            spec = mapping(spec.get(part))
        value = spec.get(self.path[-1])
        if value is None:
            return False
        return (value is not self.runs) if isinstance(value, bool) else None

    def written(self, suspend: bool) -> Raw:
        """The part of a merge patch."""
        body: Any = suspend is not self.runs
        for part in reversed(self.path):
            body = {part: body}
        return {"spec": body}

    def forbids(self, spec: Raw) -> str:
        """Why its controller would not follow the field, or would never end."""
        manager = text(spec.get("managedBy")) or text(mapping(spec.get("runPolicy")).get("managedBy"))
        if manager not in OWN:
            return f"is managed by {manager[:100]}"
        if self.name == "RayJob" and spec.get("shutdownAfterJobFinishes") is not True:
            return "keeps its Ray cluster at its end (shutdownAfterJobFinishes), and KubeRay suspends no such job"
        if self.name == "RayJob" and mapping(spec.get("clusterSelector")):
            return "runs on a Ray cluster of others (clusterSelector), and KubeRay suspends no such job"
        return ""


WORKLOAD = Kind(
    "Workload", "kueue.x-k8s.io", "workloads", ("v1beta2", "v1beta1"), path=("active",), ends=("Finished",), runs=True
)
RAY_CLUSTER = Kind("RayCluster", "ray.io", "rayclusters", ("v1", "v1alpha1"))
"""Between a pod of Ray and its RayJob; never suspended by itself."""
KINDS = (
    Kind("JobSet", "jobset.x-k8s.io", "jobsets", ("v1", "v1beta1", "v1alpha2")),
    Kind("TrainJob", "trainer.kubeflow.org", "trainjobs", ("v1", "v1beta1", "v1alpha1")),
    Kind("PyTorchJob", "kubeflow.org", "pytorchjobs", ("v1",), path=("runPolicy", "suspend")),
    Kind("RayJob", "ray.io", "rayjobs", ("v1", "v1alpha1")),
    Kind("Job", "batch", "jobs", ("v1",), ends=("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")),
    WORKLOAD,
)
BY_KIND = {kind.name: kind for kind in (*KINDS, RAY_CLUSTER)}
