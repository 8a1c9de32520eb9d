"""How the objects of a team look when it submits them: RayJob, RayCluster, the pods of both.

It decides the fields that a person would write. It refuses to decide what controllers add.
"""

from typing import Any

from fleet.simulator import objects
from fleet.simulator.gangs.plan import Team
from fleet.simulator.host import LABEL
from fleet.simulator.kube.defaults import fill
from fleet.simulator.kube.kinds import BY_PATH
from fleet.simulator.scheduler import GROUP as POD_GROUP

Json = dict[str, Any]
WORKERS, HEAD = "gpu-group", "headgroup"
GANG_LABEL = "ray.io/gang-scheduling-enabled"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
PODS = BY_PATH["", "v1", "pods"]


def cluster_spec(team: Team) -> Json:
    """A RayCluster's spec. The worker group's bounds are exact where the team says no others."""
    least = team.least or (0 if team.autoscaler else team.workers)
    spec: Json = {
        "rayVersion": team.version,
        "headGroupSpec": {"rayStartParams": {"dashboard-host": "0.0.0.0"}, "template": _template(team, 0)},
        "workerGroupSpecs": [
            {
                "groupName": WORKERS,
                "replicas": max(least, 1) if team.autoscaler else team.workers,
                "minReplicas": least,
                "maxReplicas": team.most or team.workers,
                "rayStartParams": {},
                "template": _template(team, team.gpus),
            }
        ],
    }
    if team.autoscaler:
        spec |= {"enableInTreeAutoscaling": True, "autoscalerOptions": {"idleTimeoutSeconds": team.idle}}
    if team.tolerant:
        spec["gcsFaultToleranceOptions"] = {"redisAddress": f"redis.{team.namespace}:6379"}
    if team.history:
        collector = {"name": "ray-history-collector", "image": "rayproject/historyserver:1.7.0"}
        spec["headGroupSpec"]["template"]["spec"]["containers"].append(collector)
    return spec


def cluster(team: Team) -> Json:
    return {"metadata": _meta(team), "spec": cluster_spec(team)}


def job(team: Team) -> Json:
    spec: Json = {
        "entrypoint": f"python train.py --name {team.name}",
        "shutdownAfterJobFinishes": team.shuts_down,
        "ttlSecondsAfterFinished": team.ttl if team.shuts_down else 0,
        "backoffLimit": 0,
        "rayClusterSpec": cluster_spec(team),
    }
    return {"metadata": _meta(team), "spec": spec}


def _meta(team: Team) -> Json:
    labels = {GANG_LABEL: "true"} if team.gang else {}
    if team.queue:
        labels[QUEUE_LABEL] = team.queue
    return {"name": team.name, "namespace": team.namespace, "labels": labels}


def _template(team: Team, gpus: int) -> Json:
    asks = {"cpu": "16", "memory": "128Gi"} if gpus else {"cpu": "4", "memory": "16Gi"}
    if gpus:
        asks["nvidia.com/gpu"] = str(gpus)
    container = {"name": "ray", "image": f"rayproject/ray:{team.version}", "resources": {"limits": asks}}
    spec: Json = {"containers": [container]}
    if team.pool:
        spec["nodeSelector"] = {LABEL + "pool": team.pool}
    return {"spec": spec}


def pod(cluster: Json, group: str, name: str, uid: str, created: str) -> Json:
    """A pod of a Ray cluster as its operator makes it: waiting, with the labels by which everybody finds it."""
    meta, spec = cluster["metadata"], cluster["spec"]
    head = group == HEAD
    of = spec["headGroupSpec"] if head else next(g for g in spec["workerGroupSpecs"] if g["groupName"] == group)
    labels = {
        "ray.io/cluster": meta["name"],
        "ray.io/group": group,
        "ray.io/node-type": "head" if head else "worker",
        "ray.io/is-ray-node": "yes",
        "ray.io/identifier": f"{meta['name']}-{'head' if head else 'worker'}",
    }
    if GANG_LABEL in (meta.get("labels") or {}):
        labels[POD_GROUP] = meta["name"]
    made: Json = {
        "metadata": {
            "name": name,
            "namespace": meta["namespace"],
            "uid": uid,
            "creationTimestamp": created,
            "labels": labels,
            "ownerReferences": [objects.owner("ray.io/v1", "RayCluster", meta["name"], meta["uid"])],
        },
        "spec": dict(of["template"]["spec"]) | {"restartPolicy": "Never"},
    }
    fill(PODS, made)
    return made


def gpus_of(group: Json) -> int:
    containers = group["template"]["spec"]["containers"]
    return sum(int(c.get("resources", {}).get("limits", {}).get("nvidia.com/gpu", 0)) for c in containers)
