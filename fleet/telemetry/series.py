"""What a series is: the metric, the node, the device and, for a few metrics, one more label.

Decides identity from labels as different exporters spell them, so that a pod that moves, an error code in a label or
a new exporter version does not make a new series. Decides, too, whether a sample may belong to the node it was
scraped from: a host label that names another node, no node or two nodes rejects it. Refuses to guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from sys import intern
from typing import Final

from fleet.telemetry import names
from fleet.telemetry.names import DeviceKind, Metric


class Ambiguous:
    """What a resolver answers when a name fits two nodes."""

    def __repr__(self) -> str:
        return "AMBIGUOUS"


AMBIGUOUS: Final = Ambiguous()
Resolver = Callable[[str], "str | Ambiguous | None"]  # a name an exporter or log shipper claims -> our node

# Negative rows: why a series has no row. The parser caches them like rows, so a rejected sample costs as little.
UNWANTED, OTHER_NODE, NO_NODE, TWO_NODES, TOO_MANY, NO_DEVICE, BAD_LABELS = -1, -2, -3, -4, -5, -6, -7
REJECTS: dict[int, str] = {
    UNWANTED: "unwanted",
    OTHER_NODE: "wrong_node",
    NO_NODE: "unknown_node",
    TWO_NODES: "ambiguous_node",
    TOO_MANY: "too_many_series",
    NO_DEVICE: "no_device",
    BAD_LABELS: "bad_label",
}
MAX_NAME, MAX_FACT = 1_024, 256  # of a device, and of what its labels tell besides
HOST_LABEL = "Hostname"
_HOST = (HOST_LABEL, "hostname")
_UUID = ("UUID", "gpu_uuid", "uuid")
_DRIVER = ("DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION")
_SUBS = ("GPU_I_ID", "clock_event", "peer_gpu", "nvlink")
_VIRTUAL_NIC = re.compile(r"^(lo|veth|cali|docker|cni|flannel|br-|virbr|tunl|tap|kube-|dummy|lxc|nodelocaldns|vxlan)")
_VIRTUAL_FS = frozenset({"tmpfs", "overlay", "squashfs", "devtmpfs", "ramfs", "nsfs", "autofs", "iso9660", "proc"})
_OPERATIONS = frozenset({"READ", "WRITE", "GETATTR"})  # of the fifty that NFS counts, those that mean waiting
_HUNG = re.compile(r"timeout|timed out|stale", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Part:
    """The device of a series, as its labels tell. `key` is unique within the node: a GPU's UUID, `mlx5_0/1`,
    `mount:/data`, or empty for the host itself. `sub` tells apart what one device has several of (MIG instances)."""

    key: str
    kind: DeviceKind
    sub: str = ""
    attrs: dict[str, str] = field(default_factory=dict, compare=False)


HOST = Part("", "host")


def _first(labels: dict[str, str], keys: tuple[str, ...]) -> str:
    for key in keys:
        if labels.get(key):
            return labels[key]
    return ""


def host_label(labels: dict[str, str]) -> str:
    """The node the exporter says it speaks for, empty when it does not say."""
    return _first(labels, _HOST)


def check_host(labels: dict[str, str], node: str, resolve: Resolver | None) -> int:
    """0 when the sample may enter under `node`, else the reject code."""
    said = host_label(labels)
    if not said or said == node or resolve is None:
        return 0
    found = resolve(said)
    if found is None:
        return NO_NODE
    if isinstance(found, Ambiguous):
        return TWO_NODES
    return 0 if found == node else OTHER_NODE


def metric_of(name: str) -> Metric | None:
    """The metric we keep under this or another spelling."""
    return names.METRICS.get(names.canonical(name))


def part_of(kind: DeviceKind, labels: dict[str, str]) -> Part | int:
    """Which device the labels mean, or the negative code of why none. Depends on nothing else, so it can be noted."""
    part = _part(kind, labels)
    return BAD_LABELS if isinstance(part, Part) and max(len(part.key), len(part.sub)) > MAX_NAME else part


def _part(kind: DeviceKind, labels: dict[str, str]) -> Part | int:
    if kind == "gpu":
        return _gpu(labels)
    if kind == "port":
        device, port = labels.get("device", ""), labels.get("port", "1")
        if not device and "switch" in labels:
            return UNWANTED  # an exporter of switches that happens to run on a node: see fabricintake
        return Part(f"{device}/{port}", "port") if device else NO_DEVICE
    if kind == "mount":
        return _mount(labels)
    if kind == "host":
        sub = labels.get("state") or labels.get("title", "")
        return Part("", "host", sub) if sub else HOST
    return _named(kind, labels)


def _named(kind: DeviceKind, labels: dict[str, str]) -> Part | int:
    """Parts that one label names: NICs, disks, power supplies, fans, memory controllers, NVSwitches."""
    if kind == "nic" and _VIRTUAL_NIC.match(labels.get("device", "")):
        return UNWANTED
    if kind == "psu" and "power" not in labels.get("type", "power").lower():
        return UNWANTED  # of the many sensors of a board only those of its power supplies
    name = _first(labels, _NAMED[kind])
    return Part(f"{kind}:{name}", kind, "", {"name": name}) if name else NO_DEVICE


_NAMED: dict[str, tuple[str, ...]] = {
    "nic": ("device",),
    "disk": ("device", "disk"),
    "psu": ("power_supply", "power_supply_id", "name"),
    "fan": ("fan", "fan_id", "name"),
    "dimm": ("controller",),
    "switch": ("nvswitch",),
}


def _gpu(labels: dict[str, str]) -> Part | int:
    address = names.pci(labels["pci_bus_id"]) if labels.get("pci_bus_id") else ""
    uuid = _first(labels, _UUID)
    if not uuid and address:
        uuid = f"pci:{address}"
    if not uuid:
        return NO_DEVICE
    index = labels.get("gpu", "")
    attrs = {
        "index": index if index.isascii() and index.isdigit() and len(index) <= 4 else "",
        "pci": address,
        "model": intern(labels.get("modelName") or labels.get("model_name", "")),
        "driver": intern(_first(labels, _DRIVER)),
        "serial": labels.get("DCGM_FI_DEV_SERIAL", ""),
    }
    return Part(uuid, "gpu", _sub(labels), {key: text[:MAX_FACT] for key, text in attrs.items() if text})


def _sub(labels: dict[str, str]) -> str:
    """A health check and the code it fails by are one: when the code changes, the old one is taken back."""
    check, code = labels.get("health_watch", ""), labels.get("health_error_code", "")
    if check:
        return f"{check}|{code}" if code and code != "DCGM_FR_OK" else check
    sub, xid = _first(labels, _SUBS), labels.get("xid", "")
    return f"{xid}/{sub}" if xid and sub else xid or sub


def _mount(labels: dict[str, str]) -> Part | int:
    point = labels.get("mountpoint") or labels.get("mount", "")
    if not point:
        return _export(labels)
    if labels.get("fstype") in _VIRTUAL_FS:
        return UNWANTED
    said = labels.get("device_error", "")
    if said and not _HUNG.search(said):
        return UNWANTED  # another reason, such as a missing permission of the exporter, says nothing about the mount
    attrs = {"server": labels.get("device", "").partition(":")[0], "export": labels.get("device", "")}
    attrs |= {"mountpoint": point, "fstype": labels.get("fstype", "")}
    return Part(f"mount:{point}", "mount", "", {key: text[:MAX_NAME] for key, text in attrs.items()})


def _export(labels: dict[str, str]) -> Part | int:
    """An NFS export as mountstats names it; `sub` is the operation."""
    export, operation = labels.get("export", ""), labels.get("operation", "")
    if not export:
        return NO_DEVICE
    if operation not in _OPERATIONS:
        return UNWANTED
    protocol = labels.get("protocol", "tcp")  # one export may be mounted by two, each with counts of its own
    key = f"export:{export}" if protocol == "tcp" else f"export:{export} ({protocol})"
    return Part(key, "mount", operation, {"server": export.partition(":")[0], "export": export})
