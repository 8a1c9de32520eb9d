"""What the API server fills in when an object is created.

It decides defaults and the admission that clients notice (the tolerations that let a pod stay 300 s on an
unreachable node). It refuses to default kinds nobody creates here.
"""

from typing import Any

from fleet.simulator.kube.kinds import Kind

Json = dict[str, Any]

STAY_SECONDS = 300
STAY = [
    {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": STAY_SECONDS}
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
]

COUNTED = (
    "rayclusters", "rayjobs", "podgroups", "workloads", "clusterqueues", "localqueues", "jobsets", "trainjobs",
    "pytorchjobs",
)  # fmt: skip
"""Kinds whose specs are counted by generation."""


def fill(kind: Kind, obj: Json) -> None:
    """Change the new object in place; its metadata is complete by now."""
    maker = {"pods": _pod, "jobs": _job, "poddisruptionbudgets": _budget, "namespaces": _namespace}.get(kind.plural)
    if maker is not None:
        maker(obj)
    elif kind.plural in COUNTED:
        obj["metadata"].setdefault("generation", 1)
        obj.pop("status", None)


def pod_spec(spec: Json) -> None:
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("schedulerName", "default-scheduler")
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("enableServiceLinks", True)


def _pod(obj: Json) -> None:
    spec = obj.setdefault("spec", {})
    pod_spec(spec)
    spec.setdefault("priority", 0)
    tolerations = list(spec.get("tolerations") or [])
    tolerated = {t.get("key") for t in tolerations if t.get("effect") in ("NoExecute", None, "")}
    spec["tolerations"] = tolerations + [t for t in STAY if t["key"] not in tolerated and None not in tolerated]
    obj["status"] = {"phase": "Pending", "qosClass": "BestEffort"}


def _job(obj: Json) -> None:
    meta, spec = obj["metadata"], obj["spec"]
    meta.setdefault("generation", 1)
    for field, value in (("parallelism", 1), ("completions", 1), ("backoffLimit", 6), ("completionMode", "NonIndexed")):
        spec.setdefault(field, value)
    spec.setdefault("suspend", False)
    template = spec["template"]
    labels = template.setdefault("metadata", {}).setdefault("labels", {})
    identity = {"batch.kubernetes.io/controller-uid": meta["uid"], "batch.kubernetes.io/job-name": meta["name"]}
    labels |= identity | {"controller-uid": meta["uid"], "job-name": meta["name"]}
    spec.setdefault("selector", {"matchLabels": {"batch.kubernetes.io/controller-uid": meta["uid"]}})
    pod_spec(template["spec"])
    obj["status"] = {}


def _budget(obj: Json) -> None:
    obj["metadata"].setdefault("generation", 1)
    obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}


def _namespace(obj: Json) -> None:
    obj.setdefault("spec", {"finalizers": ["kubernetes"]})
    obj["status"] = {"phase": "Active"}
