"""How the initial objects of the cluster look: nodes, leases, pods and what owns them.

It decides the fields a client of a real cluster would find. It refuses to decide where pods run or how many there are.
"""

from typing import Any

from fleet.simulator.host import GPUS, TRAIN, Host, identity
from fleet.simulator.kube.defaults import STAY
from fleet.simulator.store import HEARTBEAT, RENEWAL
from fleet.simulator.timeline import stamp

Json = dict[str, Any]

GPU_MODEL = "NVIDIA H100 80GB HBM3"
DRIVER = "570.172.08"
CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


def conditions(since: str) -> list[Json]:
    """Those of a live kubelet; the heartbeat is filled in when somebody reads it."""
    return [
        {
            "type": kind,
            "status": status,
            "lastHeartbeatTime": HEARTBEAT,
            "lastTransitionTime": since,
            "reason": reason,
            "message": message,
        }
        for kind, status, reason, message in CONDITIONS
    ]


def node(host: Host) -> Json:
    since = stamp(int(host.booted_at) + 60)
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": host.name,
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "h100-8x-sxm5",
        "nvidia.com/gpu.count": str(GPUS),
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": GPU_MODEL.replace(" ", "-"),
    }
    size = {"cpu": "192", "ephemeral-storage": "7500Gi", "memory": "2113Gi", "nvidia.com/gpu": str(GPUS), "pods": "110"}
    return {
        "metadata": {
            "name": host.name,
            "uid": str(identity(host.uuid, "node")),
            "creationTimestamp": stamp(int(host.booted_at) - 86400),
            "labels": labels | host.topology(),
            "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
        },
        "spec": {"providerID": f"baremetal://dc1/{host.uuid}"},
        "status": {
            "capacity": size,
            "allocatable": size | {"cpu": "190", "memory": "2090Gi"},
            "conditions": conditions(since),
            "addresses": [
                {"type": "InternalIP", "address": host.ip},
                {"type": "Hostname", "address": host.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(host),
        },
    }


def node_info(host: Host) -> Json:
    return {
        "machineID": identity(host.uuid, "machine").hex,
        "systemUUID": host.uuid,
        "bootID": host.boot_id,
        "kernelVersion": "6.8.0-79-generic",
        "osImage": "Ubuntu 24.04.3 LTS",
        "containerRuntimeVersion": "containerd://1.7.28",
        "kubeletVersion": "v1.33.4",
        "kubeProxyVersion": "v1.33.4",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def lease(host: Host) -> Json:
    return {
        "metadata": {
            "name": host.name,
            "namespace": "kube-node-lease",
            "uid": str(identity(host.uuid, "lease")),
            "creationTimestamp": stamp(int(host.booted_at) - 86400),
        },
        "spec": {"holderIdentity": host.name, "leaseDurationSeconds": 40, "renewTime": RENEWAL},
    }


def owner(api_version: str, kind: str, name: str, uid: str) -> Json:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def pod(
    namespace: str,
    name: str,
    uid: str,
    created: str,
    labels: dict[str, str],
    owned_by: Json,
    image: str,
    *,
    gpus: int = 0,
    priority: int = 0,
    grace: int = 30,
    restart: str = "Always",
    selector: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    daemon: bool = False,
) -> Json:
    """An unscheduled pod with one container."""
    resources: Json = {"requests": {"cpu": "500m", "memory": "1Gi"}}
    if gpus:
        resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"cpu": "16", "nvidia.com/gpu": str(gpus)}}
    tolerations: list[Json] = [{"operator": "Exists"}] if daemon else [dict(entry) for entry in STAY]
    if gpus:
        tolerations.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    meta: Json = {"name": name, "namespace": namespace, "uid": uid, "creationTimestamp": created, "labels": labels}
    if annotations:
        meta["annotations"] = annotations
    meta["ownerReferences"] = [owned_by]
    spec: Json = {
        "containers": [{"name": "main", "image": image, "resources": resources}],
        "restartPolicy": restart,
        "terminationGracePeriodSeconds": grace,
        "schedulerName": "default-scheduler",
        "serviceAccountName": "default",
        "priority": priority,
        "tolerations": tolerations,
    }
    if selector:
        spec["nodeSelector"] = selector
    status = {"phase": "Pending", "qosClass": "Burstable"}
    return {"metadata": meta, "spec": spec, "status": status}


def running(obj: Json, host: Host, since: str, restarts: int = 0) -> Json:
    """The status of a pod whose containers run and are ready, on a node of the fleet."""
    spec = obj["spec"]
    ip = "127.0.0.1" if "prometheus.io/port" in (obj["metadata"].get("annotations") or {}) else pod_ip(obj, host)
    statuses = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "started": True,
            "restartCount": restarts,
            "containerID": f"containerd://{identity(obj['metadata']['uid'], restarts).hex}",
            "state": {"running": {"startedAt": since}},
        }
        for container in spec["containers"]
    ]
    kinds = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "qosClass": (obj.get("status") or {}).get("qosClass", "Burstable"),
        "conditions": [{"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds],
        "hostIP": host.ip,
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": since,
        "containerStatuses": statuses,
    }


def pod_ip(obj: Json, host: Host) -> str:
    number = int(identity(obj["metadata"]["uid"], host.name)) % 65000
    return f"10.{128 + host.index % 64}.{number // 250}.{number % 250 + 1}"


def priority_class(pool: str) -> int:
    return 1000 if pool == TRAIN else 2000
