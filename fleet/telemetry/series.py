"""What a series is: the metric, the node, the device and, for a few metrics, one more label.

Decides identity from labels as different exporters spell them, so that a pod that moves, an error code in a label or
a new exporter version does not make a new series. Decides, too, whether a sample may belong to the node it was
scraped from: a host label that names another node, no node or two nodes rejects it. Refuses to guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
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
UNWANTED, OTHER_NODE, NO_NODE, TWO_NODES, TOO_MANY, NO_DEVICE = -1, -2, -3, -4, -5, -6
REJECTS: dict[int, str] = {
    UNWANTED: "unwanted",
    OTHER_NODE: "wrong_node",
    NO_NODE: "unknown_node",
    TWO_NODES: "ambiguous_node",
    TOO_MANY: "too_many_series",
    NO_DEVICE: "no_device",
}
_HOST = ("Hostname", "hostname")
_UUID = ("UUID", "gpu_uuid", "uuid")
_HUNG = re.compile(r"timeout|timed out|stale", re.IGNORECASE)
_MIG = ("GPU_I_ID",)


@dataclass(frozen=True, slots=True)
class Identity:
    """`device` is unique within the node: a GPU's UUID, `mlx5_0/1`, `mount:/data`, or empty for the host itself."""

    metric: Metric
    device: str
    kind: DeviceKind
    sub: str = ""
    attrs: dict[str, str] = field(default_factory=dict, compare=False)


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


def identify(name: str, labels: dict[str, str]) -> Identity | int:
    """The identity of a series, or the negative code of why it has none."""
    metric = names.METRICS.get(names.canonical(name))
    if metric is None:
        return UNWANTED
    if metric.kind == "gpu":
        return _gpu(metric, labels)
    if metric.kind == "port":
        device, port = labels.get("device", ""), labels.get("port", "1")
        return Identity(metric, f"{device}/{port}", "port") if device else NO_DEVICE
    if metric.kind == "mount":
        return _mount(metric, labels)
    return Identity(metric, "", "host")


def _gpu(metric: Metric, labels: dict[str, str]) -> Identity | int:
    address = names.pci(labels["pci_bus_id"]) if labels.get("pci_bus_id") else ""
    index = labels.get("gpu", "")
    uuid = _first(labels, _UUID)
    if not uuid and address:
        uuid = f"pci:{address}"
    if not uuid:
        return NO_DEVICE
    attrs = {
        "index": index,
        "pci": address,
        "model": labels.get("modelName") or labels.get("model_name", ""),
        "driver": labels.get("DCGM_FI_DRIVER_VERSION", ""),
        "serial": labels.get("DCGM_FI_DEV_SERIAL", ""),
    }
    return Identity(metric, uuid, "gpu", _first(labels, _MIG), {key: text for key, text in attrs.items() if text})


def _mount(metric: Metric, labels: dict[str, str]) -> Identity | int:
    point = labels.get("mountpoint", "")
    if not point:
        return NO_DEVICE
    said = labels.get("device_error", "")
    if said and not _HUNG.search(said):
        return UNWANTED  # another reason, such as a missing permission of the exporter, says nothing about the mount
    attrs = {"server": labels.get("device", "").partition(":")[0], "export": labels.get("device", "")}
    attrs |= {"mountpoint": point, "fstype": labels.get("fstype", "")}
    return Identity(metric, f"mount:{point}", "mount", "", attrs)
