"""Jobs on a node (validation, GPU reset): their manifest, and what their status means.

Decides that a Job runs once, on one named node, whatever its taints, and cleans itself up. Refuses retries and
service account tokens: a Job of ours works on a node, it does not talk to the cluster.
"""

from __future__ import annotations

from typing import Any

from fleet.ports.cluster import PURPOSE_LABEL, JobRequest, JobSeen
from fleet.ports.shapes import items, mapping, text, whole

KEEP_SECONDS = 3600
MANAGED_BY = {"app.kubernetes.io/managed-by": "muster"}


def manifest(request: JobRequest) -> dict[str, Any]:
    labels = {**MANAGED_BY, **request.labels}
    name = request.labels.get(PURPOSE_LABEL, "validate")
    container: dict[str, Any] = {"name": name, "image": request.image, "command": list(request.command)}
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
    if request.env:
        container["env"] = [{"name": key, "value": value} for key, value in request.env.items()]
    if request.privileged:
        container["securityContext"] = {"privileged": True}
    if request.gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(request.gpus)}}
    pod = {
        # Named, not scheduled: the node is cordoned while it is validated.
        "nodeName": request.node,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
    }
    if request.runtime_class:
        pod["runtimeClassName"] = request.runtime_class
    if request.priority_class:
        pod["priorityClassName"] = request.priority_class
    volumes, mounts = _volumes(request)
    if volumes:
        pod["volumes"], container["volumeMounts"] = volumes, mounts
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": request.name, "namespace": request.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "activeDeadlineSeconds": request.deadline_seconds,
            "ttlSecondsAfterFinished": KEEP_SECONDS,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _volumes(request: JobRequest) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The node's own paths, and shared memory for whoever works on several GPUs: 64 MiB is too little for NCCL."""
    volumes: list[dict[str, Any]] = []
    mounts: list[dict[str, Any]] = []
    for number, entry in enumerate(request.mounts):
        path = entry.removesuffix(":ro")
        volumes.append({"name": f"mount-{number}", "hostPath": {"path": path}})
        seen_at = {"name": f"mount-{number}", "mountPath": path, "readOnly": entry != path}
        mounts.append(seen_at | {"mountPropagation": "HostToContainer"})
    if request.gpus > 1:
        volumes.append({"name": "shm", "emptyDir": {"medium": "Memory"}})
        mounts.append({"name": "shm", "mountPath": "/dev/shm"})  # noqa: S108  of the container
    return volumes, mounts


def newest_pod(pods: list[dict[str, Any]]) -> tuple[str, str]:
    """(name, container) of the pod that was made last; ("", "") without one."""
    named = [mapping(raw.get("metadata")) for raw in pods]
    found = max(zip(named, pods, strict=True), key=lambda one: text(one[0].get("creationTimestamp")), default=None)
    if found is None:
        return "", ""
    containers = items(mapping(found[1].get("spec")).get("containers"))
    return text(found[0].get("name")), text(containers[0].get("name")) if containers else ""


def seen(raw: Any) -> JobSeen:
    status = mapping(mapping(raw).get("status"))
    held = {text(e.get("type")): e for e in items(status.get("conditions")) if e.get("status") == "True"}
    for kind in ("Failed", "FailureTarget"):
        if kind in held:
            parts = [text(held[kind].get("reason")), text(held[kind].get("message"))]
            return JobSeen("failed", ": ".join(part for part in parts if part))
    if "Complete" in held or "SuccessCriteriaMet" in held:
        return JobSeen("succeeded")
    active = whole(status.get("active"), 0)
    if whole(status.get("ready"), active) > 0 and active > 0:
        return JobSeen("running")
    return JobSeen("pending", "Its pod has not started yet." if active else "Its pod has not been created yet.")


def last_words(pods: list[dict[str, Any]]) -> str:
    """What the failed container said, or why it never ran."""
    for raw in pods:
        for status in items(mapping(raw.get("status")).get("containerStatuses")):
            state = mapping(status.get("state"))
            ended, waits = mapping(state.get("terminated")), mapping(state.get("waiting"))
            said = text(ended.get("message")).strip() or text(waits.get("message")).strip()
            if said:
                return said[-500:]
            if ended:
                return f"The container ended with exit code {whole(ended.get('exitCode'), -1)}."
        reason = text(mapping(raw.get("status")).get("message"))
        if reason:
            return reason[:500]
    return ""
