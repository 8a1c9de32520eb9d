"""On which hardware, driver and firmware a fault was met: what repair effectiveness is measured by.

Decides whose firmware speaks: that of the device which the fault names (a GPU's VBIOS and InfoROM, an adapter's own),
else that of the node's GPUs where all of them have the same. Refuses to guess: what nobody told is "".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fleet.inventory.models import DRIVER, Device
from fleet.lifecycle.models import Workflow

DRIVER_LABEL = "nvidia.com/cuda.driver-version.full"  # written by GPU feature discovery
KINDS = ("gpu", "hca")


class Key(NamedTuple):
    cause: str
    sku: str = ""
    driver: str = ""
    firmware: str = ""


def keys_of(workflows: Sequence[Workflow]) -> list[Key]:
    """Of each workflow, in their order. One query whatever their number."""
    devices: dict[int, list[Device]] = {}
    wanted = {workflow.node_id for workflow in workflows}
    rows = Device.objects.filter(node_id__in=wanted, kind__in=KINDS, gone_at=None).exclude(versions={})
    for device in rows.order_by("node_id", "kind", "index", "key"):
        devices.setdefault(device.node_id, []).append(device)
    return [_key(workflow, devices.get(workflow.node_id, [])) for workflow in workflows]


def _key(workflow: Workflow, devices: Sequence[Device]) -> Key:
    incident = workflow.incident
    named = [device for device in devices if incident is not None and _means(incident.device, device)]
    own = named[:1] or [device for device in devices if device.kind == "gpu"]
    driver = str(workflow.node.labels.get(DRIVER_LABEL, "")) or _common(
        [str(device.versions.get(DRIVER, "")) for device in devices if device.kind == "gpu"]
    )
    firmware = _common([_told(device.versions) for device in own])
    return Key(incident.cause if incident else "", workflow.node.gpu_model, driver[:64], firmware[:128])


def _means(name: str, device: Device) -> bool:
    """Does a fault by that name mean this device? A GPU is named by UUID, address or index, a port by its adapter."""
    if not name:
        return False
    if device.kind == "gpu":
        at = device.index
        numbered = at is not None and name in (f"GPU-{at}", f"gpu:{at}", str(at))
        return name == device.key or numbered or bool(device.pci and name.removeprefix("pci:") == device.pci)
    return name == device.key or name == device.key.partition("/")[0]


def _told(versions: Mapping[str, str]) -> str:
    """`InfoROM G520.0200, VBIOS 96.00.5E`; "" of a device that told none."""
    return ", ".join(f"{what} {versions[what]}" for what in sorted(versions) if what != DRIVER and versions[what])


def _common(told: Sequence[str]) -> str:
    """What all of them say; "" where they differ, or one says nothing."""
    return told[0] if len(set(told)) == 1 else ""
