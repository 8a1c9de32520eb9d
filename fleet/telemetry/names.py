"""Which metrics we keep, and the one name and unit each is known by.

Decides the canonical metric name (the long-standing DCGM spelling; DCGM 4.6 renamed several hundred fields and
exporters in one fleet speak both), its kind, its plausible range and which labels tell its series apart. Refuses
everything else: a metric that no rule and no page reads costs nothing beyond being skipped.

Sources: dcgm-exporter's default counter list, the DCGM 4.6 release's rename list, node_exporter's collectors.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

DeviceKind = Literal["gpu", "port", "mount", "host"]

INF = float("inf")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric we keep. Values outside lo..hi are absurd: counted, never believed."""

    name: str
    kind: DeviceKind
    counter: bool = False
    lo: float = 0.0
    hi: float = INF
    unit: str = ""


XID = "DCGM_FI_DEV_XID_ERRORS"
GPU_TEMP = "DCGM_FI_DEV_GPU_TEMP"
SLOWDOWN_TEMP = "DCGM_FI_DEV_SLOWDOWN_TEMP"
CLOCK_REASONS = "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"
ECC_DBE = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"
ROW_REMAP_FAILURE = "DCGM_FI_DEV_ROW_REMAP_FAILURE"
IB_STATE = "node_infiniband_state_id"
IB_PHYSICAL = "node_infiniband_physical_state_id"
IB_DOWNED = "node_infiniband_link_downed_total"
MOUNT_ERROR = "node_filesystem_device_error"
NODE_TIME = "node_time_seconds"
BOOT_TIME = "node_boot_time_seconds"
PROCESS_START = "process_start_time_seconds"

_ALL = (
    Metric(XID, "gpu", hi=1e6),
    Metric(GPU_TEMP, "gpu", lo=-40, hi=200, unit="C"),
    Metric("DCGM_FI_DEV_MEMORY_TEMP", "gpu", lo=-40, hi=200, unit="C"),
    Metric(SLOWDOWN_TEMP, "gpu", lo=1, hi=200, unit="C"),
    Metric(CLOCK_REASONS, "gpu", hi=2**32, unit="bits"),
    Metric(ECC_DBE, "gpu", counter=True),
    Metric("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "gpu", counter=True),
    Metric(ROW_REMAP_FAILURE, "gpu", hi=1),
    Metric("DCGM_FI_DEV_ROW_REMAP_PENDING", "gpu", hi=1),
    Metric("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "gpu", counter=True),
    Metric("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "gpu", counter=True),
    Metric("DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION", "gpu", hi=16),
    Metric("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "gpu", counter=True),
    Metric("DCGM_FI_DEV_SM_CLOCK", "gpu", hi=1e5, unit="MHz"),
    Metric("DCGM_FI_DEV_MEM_CLOCK", "gpu", hi=1e5, unit="MHz"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "gpu", hi=1e4, unit="W"),
    Metric("DCGM_FI_DEV_GPU_UTIL", "gpu", hi=100, unit="%"),
    Metric("DCGM_FI_DEV_MEM_COPY_UTIL", "gpu", hi=100, unit="%"),
    Metric("DCGM_FI_DEV_FB_FREE", "gpu", hi=1e8, unit="MiB"),
    Metric("DCGM_FI_DEV_FB_USED", "gpu", hi=1e8, unit="MiB"),
    Metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric("DCGM_FI_PROF_DRAM_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric(IB_STATE, "port", hi=16),
    Metric(IB_PHYSICAL, "port", hi=16),
    Metric(IB_DOWNED, "port", counter=True),
    Metric("node_infiniband_rate_bytes_per_second", "port", unit="B/s"),
    Metric("node_infiniband_symbol_error_total", "port", counter=True),
    Metric("node_infiniband_port_data_received_bytes_total", "port", counter=True, unit="B"),
    Metric("node_infiniband_port_data_transmitted_bytes_total", "port", counter=True, unit="B"),
    Metric(MOUNT_ERROR, "mount", hi=1),
    Metric(NODE_TIME, "host", unit="s"),
    Metric(BOOT_TIME, "host", unit="s"),
    Metric(PROCESS_START, "host", unit="s"),
    Metric("node_load1", "host"),
    Metric("node_procs_blocked", "host"),
    Metric("node_memory_MemAvailable_bytes", "host", unit="B"),
    Metric("node_memory_MemTotal_bytes", "host", unit="B"),
)
METRICS: dict[str, Metric] = {metric.name: metric for metric in _ALL}
ORDER: dict[str, int] = {name: number for number, name in enumerate(METRICS)}

# Spelling since DCGM 4.6 -> the canonical one. Only what METRICS keeps; `add_aliases` takes a site's own.
ALIASES: dict[str, str] = {
    "DCGM_FI_DEV_XID_ERROR": XID,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": GPU_TEMP,
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": "DCGM_FI_DEV_MEMORY_TEMP",
    "DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS": SLOWDOWN_TEMP,
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": CLOCK_REASONS,
    "DCGM_FI_DEV_ROW_REMAP_FAILED": ROW_REMAP_FAILURE,
    "DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL": "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL": "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    "DCGM_FI_DEV_GPU_RECOVERY_ACTION": "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION",
    "DCGM_FI_DEV_PCIE_REPLAY_TOTAL": "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_GPU_UTIL_RATIO": "DCGM_FI_DEV_GPU_UTIL",
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": "DCGM_FI_PROF_DRAM_ACTIVE",
}

_PCI = re.compile(r"^(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-9a-f])?$", re.IGNORECASE)


def canonical(name: str) -> str:
    """The name a metric is known by here, whichever generation of the exporter spelled it."""
    return ALIASES.get(name, name)


def wanted() -> frozenset[bytes]:
    """Every spelling worth parsing, as bytes for the exposition parser."""
    return frozenset(name.encode() for name in (*METRICS, *(a for a, c in ALIASES.items() if c in METRICS)))


def pci(text: str) -> str:
    """One form for a PCI address: `0000:1b:00`. The driver's log and DCGM differ in domain width, case and function."""
    found = _PCI.match(text.strip())
    if not found:
        return text.strip().lower()
    domain, bus, slot = found.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}"
