"""The facts that a node's return is decided on, read from the inventory.

Decides which facts make a pool's profile and which nodes speak for it: those in service and healthy. Two queries.
"""

from __future__ import annotations

from fleet.health.models import Signal
from fleet.inventory.models import Device, Node
from fleet.lifecycle.firmware import DRIVER_LABEL
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.validation.conditions import Counts, Drift, drift_of
from fleet.ports.cluster import NodeSeen

FACTS = ("kernel", "driver", "image", "kubelet")
LOST_RULE = "gpu-lost"
MOST_NODES = 500


def drift(node: Node, seen: NodeSeen) -> Drift:
    """Of the node as the API server tells it now. Nodes of the same SKU in its pool speak."""
    rows = Node.objects.filter(
        pool=node.pool, cluster_id=node.cluster_id, gpu_model=node.gpu_model, gone_at=None,
        lifecycle__state=NodeState.IN_SERVICE, verdict_row__verdict="healthy",
    ).exclude(pk=node.pk)  # fmt: skip
    told = rows.order_by("-seen_at").values_list("kernel", "os_image", "kubelet", "labels")[:MOST_NODES]
    others = [_facts(kernel, image, kubelet, labels) for kernel, image, kubelet, labels in told]
    return drift_of(_facts(seen.kernel, seen.os_image, seen.kubelet, dict(seen.labels)), others, FACTS)


def _facts(kernel: str, image: str, kubelet: str, labels: dict[str, str]) -> dict[str, str]:
    return {"kernel": kernel, "image": image, "kubelet": kubelet, "driver": str(labels.get(DRIVER_LABEL, ""))}


def counts(node: Node, seen: NodeSeen) -> Counts:
    """The exporter's count is of the GPUs it told of, less those it no longer tells of."""
    told = Device.objects.filter(node=node, kind="gpu", gone_at=None).count()
    lost = Signal.objects.filter(node=node, rule=LOST_RULE, cleared_at=None).values("device").distinct().count()
    shown = max(0, min(told, node.gpu_expected or told) - lost) if told else None
    return Counts(node.gpu_expected, shown, seen.gpu_capacity, seen.gpu_allocatable)
