"""Nodes and pods as an adapter would tell them."""

from __future__ import annotations

from typing import Any

from fleet.ports.cluster import NodeSeen, PodSeen
from tests.builders import T0

LABELS = {
    "topology.muster.dev/pool": "h100-train",
    "topology.muster.dev/rack": "r01",
    "topology.muster.dev/leaf": "leaf-01",
    "nvidia.com/gpu.count": "8",
}


def a_node_seen(name: str = "gpu-r01-01", **fields: Any) -> NodeSeen:
    values: dict[str, Any] = {
        "uid": f"uid-{name}",
        "resource_version": "100",
        "unschedulable": False,
        "ready": True,
        "ready_reason": "KubeletReady",
        "ready_since": T0,
        "heartbeat_at": T0,
        "boot_id": f"boot-{name}-1",
        "machine_id": "",
        "system_uuid": f"SYS-{name}".upper(),
        "provider_id": "",
        "kernel": "6.8.0",
        "os_image": "Ubuntu 24.04",
        "kubelet": "v1.33.1",
        "addresses": (("InternalIP", f"10.0.0.{int(name[-2:])}"), ("Hostname", f"{name}.dc.example")),
        "labels": LABELS,
        "annotations": {},
        "taints": (),
        "conditions": {},
        "gpu_capacity": 8,
        "gpu_allocatable": 8,
        "created_at": T0,
        **fields,
    }
    return NodeSeen(name=name, **values)


def a_pod_seen(name: str, node: str = "gpu-r01-01", **fields: Any) -> PodSeen:
    values: dict[str, Any] = {
        "namespace": "train",
        "uid": f"uid-{name}",
        "phase": "Running",
        "ready": True,
        "kind": "workload",
        "owner": "Job/llm",
        "gang": "train/llm",
        "gpus": 8,
        "grace_seconds": 30,
        "deleting_since": None,
        "finalizers": (),
        "local_data": False,
        "labels": {},
        "annotations": {},
        **fields,
    }
    return PodSeen(name=name, node=node, **values)
