"""Which versions of software and firmware a node's own series tell, and when one of them became another.

Decides which labels are versions of that which measures, drives or is measured: exporters by their `build_info`, the
kernel, BIOS and adapters as the node exporter tells them, driver, NVML, VBIOS and InfoROM as DCGM tells them. What a
series told before it told this is a change; what is told for the first time is none. What a part said last of its own
firmware is kept, for whoever measures what mends it. Refuses to judge: whoever suspects a change weighs it against who
fails. One writing thread; another takes what has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from sys import intern

MOST = 100  # characters of a version
KEPT = 1_000_000  # versions: a sender of labels without end is not remembered without end
VBIOS, INFOROM, HCA = "VBIOS", "InfoROM", "InfiniBand firmware"
FIRMWARE = (VBIOS, INFOROM, HCA)
"""What belongs to one part of a node, not to the node."""
BUILDS = (
    "node_exporter", "dcgm_exporter", "nvidia_gpu_exporter", "ipmi_exporter", "redfish_exporter", "smartctl_exporter",
    "process_exporter", "systemd_exporter", "infiniband_exporter", "slurm_exporter",
)  # fmt: skip
BY_METRIC: dict[str, tuple[str, str]] = {
    **{f"{name}_build_info": ("version", name.replace("_", " ")) for name in BUILDS},
    "node_uname_info": ("release", "kernel"),
    "node_dmi_info": ("bios_version", "BIOS"),
    "node_infiniband_info": ("firmware_version", HCA),
}
"""Metric -> the label that is a version, and what it is the version of."""
BY_LABEL = {
    "DCGM_FI_DRIVER_VERSION": "GPU driver",
    "DCGM_FI_SYSTEM_DRIVER_VERSION": "GPU driver",
    "DCGM_FI_NVML_VERSION": "NVML",
    "DCGM_FI_DEV_VBIOS_VERSION": VBIOS,
    "DCGM_FI_DEV_INFOROM_IMAGE_VER": INFOROM,
}
"""Labels that DCGM's exporter puts on every series of a GPU."""
WANTED = frozenset(name.encode() for name in BY_METRIC)

Change = tuple[str, str]
"""Node, and what became of it, in words that go on a sentence after "since"."""


class Versions:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], str] = {}
        self._firmware: dict[tuple[str, str], dict[str, str]] = {}
        self._changed: deque[Change] = deque()

    def of_metric(self, node: str, job: str, name: str, labels: Mapping[str, str]) -> None:
        """A series of `name` that was not met before. `job` tells apart two exporters of one kind on a node."""
        found = BY_METRIC.get(name)
        if found is not None:
            label, what = found
            self._told(node, job, what, labels.get("device", ""), labels.get(label, ""))

    def of_gpu(self, node: str, job: str, labels: Mapping[str, str]) -> None:
        """Labels of a GPU's series that were not met before."""
        for label, what in BY_LABEL.items():
            if label in labels:
                self._told(node, job, what, labels.get("UUID", "") if what in FIRMWARE else "", labels[label])

    def _told(self, node: str, job: str, what: str, part: str, version: str) -> None:
        """Two parts, or two exporters of one kind, may differ for ever: each is compared with its own."""
        key, version = (node, job, f"{what} {part[:MOST]}".rstrip()), version[:MOST]
        before = self._known.get(key)
        if not version or not version.isprintable() or (before is None and len(self._known) >= KEPT):
            return
        self._known[key] = version = intern(version)
        if part and what in FIRMWARE:
            self._firmware.setdefault((node, part[:MOST]), {})[what] = version
        if before is not None and before != version:
            self._changed.append((node, f"the {what} became {version}"))

    def firmware(self, node: str, part: str) -> dict[str, str]:
        """What a part (a GPU by its UUID, an adapter by its name) said last of its own firmware; {} if nothing."""
        return self._firmware.get((node, part), {})

    def changed(self) -> list[Change]:
        """What has changed and was not yet `written`, the oldest first."""
        return [self._changed[at] for at in range(len(self._changed))]

    def written(self, count: int) -> None:
        """The first `count` of `changed` are kept elsewhere now."""
        for _ in range(count):
            self._changed.popleft()
