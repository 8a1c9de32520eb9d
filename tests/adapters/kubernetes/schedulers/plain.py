"""One resource of every kind that speaks of gangs, as somebody would make it: valid under its schema, without a status.

Decides nothing; whoever adds a reader adds its resource here (`test_every_kind` holds it).
"""

from __future__ import annotations

from typing import Any

from tests.adapters.kubernetes.schedulers.raw import Json, pod_spec

POD = pod_spec(8, restartPolicy="Never")
WORK: Json = {"parallelism": 1, "completions": 1, "template": {"spec": POD}}
RAY: Json = {"headGroupSpec": {"rayStartParams": {}, "template": {"spec": POD}}, "workerGroupSpecs": []}
GPU = "nvidia.com/gpu"
SPECS: dict[tuple[str, str], Json] = {
    ("ray.io", "RayCluster"): RAY,
    ("ray.io", "RayJob"): {"entrypoint": "true", "suspend": True, "rayClusterSpec": RAY},
    ("ray.io", "RayService"): {"rayClusterConfig": RAY},
    ("scheduling.x-k8s.io", "PodGroup"): {"minMember": 2},
    ("scheduling.x-k8s.io", "ElasticQuota"): {"min": {GPU: "8"}, "max": {GPU: "16"}},
    ("scheduling.volcano.sh", "PodGroup"): {"minMember": 2, "queue": "train"},
    ("scheduling.volcano.sh", "Queue"): {"weight": 1, "capability": {GPU: "16"}},
    ("batch.volcano.sh", "Job"): {
        "minAvailable": 1, "queue": "train", "tasks": [{"name": "w", "replicas": 1, "template": {"spec": POD}}],
    },
    ("topology.volcano.sh", "HyperNode"): {
        "tier": 1, "members": [{"type": "Node", "selector": {"exactMatch": {"name": "gpu-0"}}}],
    },
    ("scheduling.run.ai", "PodGroup"): {"minMember": 2, "queue": "train"},
    ("scheduling.run.ai", "Queue"): {"resources": {"gpu": {"quota": 8, "limit": 16, "overQuotaWeight": 1}}},
    ("scheduling.run.ai", "BindRequest"): {"podName": "rank-0", "selectedNode": "gpu-0"},
    ("kueue.x-k8s.io", "Workload"): {
        "active": False, "podSets": [{"name": "main", "count": 2, "template": {"spec": POD}}],
    },
    ("kueue.x-k8s.io", "ClusterQueue"): {"stopPolicy": "Hold", "namespaceSelector": {}},
    ("kueue.x-k8s.io", "LocalQueue"): {"stopPolicy": "Hold", "clusterQueue": "train"},
    ("kueue.x-k8s.io", "Cohort"): {"fairSharing": {"weight": "1"}},
    ("scheduling.k8s.io", "PodGroup"): {"schedulingPolicy": {"gang": {"minCount": 2}}},
    ("scheduling.k8s.io", "Workload"): {"podGroups": [{"name": "w", "policy": {"gang": {"minCount": 2}}}]},
    ("jobset.x-k8s.io", "JobSet"): {
        "suspend": True, "replicatedJobs": [{"name": "w", "replicas": 1, "template": {"spec": WORK}}],
    },
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): {
        "replicas": 1, "leaderWorkerTemplate": {"size": 2, "workerTemplate": {"spec": pod_spec(8)}},
    },
    ("trainer.kubeflow.org", "TrainJob"): {
        "suspend": True, "runtimeRef": {"name": "torch"}, "trainer": {"numNodes": 2},
    },
    ("kubeflow.org", "PyTorchJob"): {
        "runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {"Worker": {"replicas": 2, "template": {"spec": POD}}},
    },
    ("slinky.slurm.net", "NodeSet"): {
        "replicas": 1, "controllerRef": {"name": "slurm"},
        "slurmd": {"name": "slurmd", "resources": {"limits": {GPU: "8"}}},
    },
}  # fmt: skip


def plain(group: str, version: str, kind: str, name: str, namespace: str) -> Any:
    """`namespace` "" for kinds of the whole cluster."""
    where = {"namespace": namespace} if namespace else {}
    body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": name, **where}}
    return {**body, "spec": SPECS[group, kind]}
