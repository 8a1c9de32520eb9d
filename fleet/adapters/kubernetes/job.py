"""Validation Jobs: their manifest, and what their status means.

Decides that a Job runs once, on one named node, whatever its taints, and cleans itself up. Refuses retries and
service account tokens: a validation proves a node, it does not talk to the cluster.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.kubernetes.shapes import items, mapping, text, whole
from fleet.ports.cluster import JobRequest, JobSeen

KEEP_SECONDS = 3600
MANAGED_BY = {"app.kubernetes.io/managed-by": "muster"}


def manifest(request: JobRequest) -> dict[str, Any]:
    labels = {**MANAGED_BY, **request.labels}
    container: dict[str, Any] = {"name": "validate", "image": request.image, "command": list(request.command)}
    container["terminationMessagePolicy"] = "FallbackToLogsOnError"
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
