"""What an API server's node says, as the values of our row.

Decides which facts of a node are hard (a change of them is worth a write and a hint at once) and which are soft
(heartbeat, resource version: written along or every few seconds), and whose hold a cordon is. Pure: no database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from fleet.inventory import owners
from fleet.inventory.models import Node
from fleet.inventory.topology import is_managed, placement
from fleet.ports.cluster import HOLD_ANNOTATION, NodeSeen

SOFT_EVERY = timedelta(seconds=10)
HARD = (
    "uid", "pool_id", "rack", "leaf", "rail", "nvlink_domain", "tenant", "managed", "unschedulable", "hold_value",
    "foreign_hold", "owners", "ready", "ready_reason", "ready_since", "boot_id", "boot_since", "kernel", "os_image",
    "kubelet", "gpu_model", "gpu_expected", "gpu_capacity", "gpu_allocatable", "labels", "gone_at",
)  # fmt: skip
SOFT = ("heartbeat_at", "resource_version", "seen_at")
SOFTWARE = {"kernel": "kernel", "os_image": "image", "kubelet": "kubelet"}
VERSION_LABELS = {"nvidia.com/cuda.driver-version.full": "GPU driver", "nvidia.com/cuda.runtime-version.full": "CUDA"}
"""What runs on a node and what finds its faults: columns of a node, and labels that GPU feature discovery writes."""
NODE_ALIASES = frozenset({"name", "uid", "provider_id", "system_uuid", "ip", "hostname"})


@dataclass(frozen=True, slots=True)
class Reading:
    """How one cluster's nodes are to be read."""

    selector: str
    label_keys: Mapping[str, str]
    pools: Mapping[str, int]


def values_of(seen: NodeSeen, old: Node | None, how: Reading, now: datetime) -> dict[str, Any]:
    """Every column that the API server decides; `old` fills what it does not tell."""
    place = placement(seen.labels, how.label_keys)
    hold = seen.annotations.get(HOLD_ANNOTATION, "")[:200]
    marks = owners.on_node(seen)
    foreign = _foreign_hold(seen, hold, old, marks)
    return {
        "uid": seen.uid[:64],
        "pool_id": how.pools.get(place.pool) if place.pool else (old.pool_id if old else None),
        "rack": place.rack or (old.rack if old else ""),
        "leaf": place.leaf or (old.leaf if old else ""),
        "rail": place.rail or (old.rail if old else ""),
        "nvlink_domain": place.nvlink_domain or (old.nvlink_domain if old else ""),
        "tenant": place.tenant or (old.tenant if old else ""),
        "managed": is_managed(seen.labels, how.selector),
        "unschedulable": seen.unschedulable,
        "hold_value": hold,
        "foreign_hold": foreign,
        "owners": owners.kept(marks, foreign, old.owners if old else (), now),
        "ready": seen.ready,
        "ready_reason": seen.ready_reason[:100],
        "ready_since": seen.ready_since,
        **_boot(seen, old, now),
        "kernel": seen.kernel[:100],
        "os_image": seen.os_image[:200],
        "kubelet": seen.kubelet[:64],
        **_gpus(seen, old),
        "labels": dict(seen.labels),
        "gone_at": None,
        "heartbeat_at": seen.heartbeat_at,
        "resource_version": seen.resource_version[:64],
        "seen_at": now,
    }


def _foreign_hold(seen: NodeSeen, hold: str, old: Node | None, marks: Sequence[owners.Owner]) -> bool:
    """A cordon without our annotation is somebody else's; ours on top of theirs leaves it theirs as well, and so does
    the mark of another owner on top of ours.

    A cordon that is there when a node is first seen is foreign whatever it is annotated with: we know no reason for it.
    """
    if not seen.unschedulable:
        return False
    return not hold or old is None or not old.uid or old.foreign_hold or any(owner.keeps for owner in marks)


def _boot(seen: NodeSeen, old: Node | None, now: datetime) -> dict[str, Any]:
    """An empty boot id is a kubelet that has not reported yet, never a reboot."""
    boot_id = seen.boot_id[:64]  # a node says what it likes of itself
    if old is None or not boot_id:
        return {"boot_id": old.boot_id if old else boot_id, "boot_since": old.boot_since if old else None}
    changed = bool(old.boot_id) and old.boot_id != boot_id
    return {"boot_id": boot_id, "boot_since": now if changed else old.boot_since}


def _gpus(seen: NodeSeen, old: Node | None) -> dict[str, Any]:
    """Expected is what the label promises, else the most that the node ever advertised.

    The model that DCGM tells (`sync_devices`) is the true one; the label only fills the gap before.
    """
    label = seen.labels.get("nvidia.com/gpu.count", "")
    known = [n for n in (old.gpu_expected if old else None, seen.gpu_capacity) if n is not None]
    return {
        "gpu_model": ((old.gpu_model if old else "") or seen.labels.get("nvidia.com/gpu.product", ""))[:100],
        "gpu_expected": int(label) if label.isdecimal() and len(label) < 5 else max(known, default=None),
        "gpu_capacity": seen.gpu_capacity,
        "gpu_allocatable": seen.gpu_allocatable,
    }


def hard_changes(old: Node, values: Mapping[str, Any]) -> list[str]:
    return [name for name in HARD if getattr(old, name) != values[name]]


def updates(old: Node, values: Mapping[str, Any]) -> list[str]:
    """What of its software became another, in words that go on a sentence after "since"."""
    before = {**{name: getattr(old, name) for name in SOFTWARE}, **_versions(old.labels)}
    after = {**{name: values[name] for name in SOFTWARE}, **_versions(values["labels"])}
    called = {**SOFTWARE, **VERSION_LABELS}
    return [
        f"the {called[name]} became {after[name]}"
        for name in called
        if before.get(name) and after.get(name) and before[name] != after[name]
    ]


def _versions(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: labels[key] for key in VERSION_LABELS if key in labels}


def soft_is_due(old: Node, values: Mapping[str, Any]) -> bool:
    """Soft facts alone are written once in a while."""
    if all(getattr(old, name) == values[name] for name in ("heartbeat_at", "resource_version")):
        return False
    return bool(values["seen_at"] - old.seen_at >= SOFT_EVERY or values["seen_at"] < old.seen_at)


def aliases_of(seen: NodeSeen) -> set[tuple[str, str]]:
    """The names by which the API server says that the outside may know this node."""
    found = {
        ("name", seen.name),
        ("uid", seen.uid),
        ("provider_id", seen.provider_id),
        ("system_uuid", seen.system_uuid.lower()),
    }
    for kind, address in seen.addresses:
        found.add(("ip" if kind.endswith("IP") else "hostname", address))
    return {(kind, value[:253]) for kind, value in found if value}
