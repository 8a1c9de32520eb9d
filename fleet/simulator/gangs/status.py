"""What the operator says of a Ray cluster: counts, state and conditions.

It decides by the pods alone. It refuses to take "provisioned" back: the real one says it for ever after the first time.
"""

from typing import Any

from fleet.simulator.gangs.shapes import HEAD, gpus_of
from fleet.simulator.store import Record

Json = dict[str, Any]


def desired(cluster: Json) -> int:
    """Worker pods that are wanted now."""
    return sum(
        min(max(group["replicas"], group["minReplicas"]), group["maxReplicas"]) * group.get("numOfHosts", 1)
        for group in cluster["spec"]["workerGroupSpecs"]
        if not group.get("suspend")
    )


def of_cluster(cluster: Json, pods: list[Record], now: str) -> Json:
    spec, before = cluster["spec"], cluster.get("status") or {}
    here = [record for record in pods if not record.deleting and record.phase in ("Pending", "Running")]
    workers = [record for record in here if record.labels["ray.io/group"] != HEAD]
    head = next((record for record in here if record.labels["ray.io/group"] == HEAD), None)
    ready, wanted = sum(record.ready for record in workers), desired(cluster)
    head_ready = head is not None and head.ready
    told = {c["type"]: c for c in before.get("conditions") or ()}
    if spec.get("suspend"):
        conditions = [_turned(told, "RayClusterSuspended", not pods, "RayClusterSuspended", "", now)]
        state = "suspended" if not pods else ""
    else:
        up = _provisioned(told) or (head_ready and ready >= wanted)
        reason = "AllPodRunningAndReadyFirstTime" if up else "RayClusterPodsProvisioning"
        running = (
            "HeadPodRunningAndReady" if head_ready else "HeadPodNotFound" if head is None else "ContainersNotReady"
        )
        conditions = [
            _turned(told, "HeadPodReady", head_ready, running, "", now),
            _turned(told, "RayClusterProvisioned", up, reason, "", now),
        ]
        if "RayClusterSuspended" in told:
            conditions.append(_turned(told, "RayClusterSuspended", False, "UserRequestedResume", "", now))
        state = "ready" if up and head_ready else str(before.get("state", ""))
    gpus = sum(gpus_of(group) * group["replicas"] for group in spec["workerGroupSpecs"])
    found: Json = {
        "desiredWorkerReplicas": 0 if spec.get("suspend") else wanted,
        "minWorkerReplicas": sum(group["minReplicas"] for group in spec["workerGroupSpecs"]),
        "maxWorkerReplicas": sum(group["maxReplicas"] for group in spec["workerGroupSpecs"]),
        "availableWorkerReplicas": sum(record.phase == "Running" for record in workers),
        "readyWorkerReplicas": ready,
        "desiredGPU": str(gpus),
        "observedGeneration": cluster["metadata"].get("generation", 1),
        "conditions": conditions,
        "head": {"podName": head.name} if head is not None else {},
    }
    return found | ({"state": state} if state else {})


def provisioned(cluster: Json) -> bool:
    return _provisioned({c["type"]: c for c in (cluster.get("status") or {}).get("conditions") or ()})


def _provisioned(told: dict[str, Json]) -> bool:
    return bool(told.get("RayClusterProvisioned", {}).get("status") == "True")


def _turned(told: dict[str, Json], kind: str, status: bool, reason: str, message: str, now: str) -> Json:
    """The condition with the moment at which it last changed."""
    old = told.get(kind, {})
    since = old["lastTransitionTime"] if old.get("status") == str(status) else now
    return {"type": kind, "status": str(status), "reason": reason, "message": message, "lastTransitionTime": since}
