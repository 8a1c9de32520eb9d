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

DeviceKind = Literal["gpu", "port", "mount", "host", "nic", "disk", "psu", "fan", "dimm", "switch"]

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
XID_COUNT, XID_TOTAL = "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_XID_ERRORS_TOTAL"  # of each code; the first in a window
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
ROW_REMAP_PENDING = "DCGM_FI_DEV_ROW_REMAP_PENDING"
REMAPPED_ROWS = "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS"
RECOVERY_ACTION = "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"
PCIE_REPLAY = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
PCIE_GEN, PCIE_WIDTH = "DCGM_FI_DEV_PCIE_LINK_GEN", "DCGM_FI_DEV_PCIE_LINK_WIDTH"
PCIE_MAX_GEN, PCIE_MAX_WIDTH = "DCGM_FI_DEV_PCIE_MAX_LINK_GEN", "DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"
GPU_UTIL = "DCGM_FI_DEV_GPU_UTIL"
SRAM_UCE, SRAM_CE = "DCGM_FI_DEV_ECC_DBE_VOL_SRM", "DCGM_FI_DEV_ECC_SBE_VOL_SRM"
DRAM_CE = "DCGM_FI_DEV_ECC_SBE_VOL_DEV"
THRESHOLD_SRM = "DCGM_FI_DEV_THRESHOLD_SRM"
TEMP_MARGIN = "DCGM_FI_DEV_GPU_TEMP_LIMIT"
RETIRED_SBE, RETIRED_DBE = "DCGM_FI_DEV_RETIRED_SBE", "DCGM_FI_DEV_RETIRED_DBE"
RETIRED_PENDING = "DCGM_FI_DEV_RETIRED_PENDING"
NVLINK_CRC = "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL"
NVLINK_CRC_DATA = "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"
NVLINK_REPLAY = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
NVLINK_RECOVERY = "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL"
# The same of the data links: what GPUs from Hopper on count, where the older fields stay blank.
NVLINK_DL_CRC, NVLINK_DL_REPLAY, NVLINK_DL_RECOVERY = (
    f"DCGM_FI_DEV_NVLINK_ERROR_DL_{what}" for what in ("CRC", "REPLAY", "RECOVERY")
)
NVLINK_BYTES = ("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES")
PCIE_BYTES = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
NVLINK_TOTAL = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"  # called a counter, documented as a throughput
SM_CLOCK = "DCGM_FI_DEV_SM_CLOCK"
NVLINK_BER = "DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT"
FABRIC_MANAGER = "DCGM_FI_DEV_FABRIC_MANAGER_STATUS"
FABRIC_HEALTH = "DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"
SWITCH_FATAL = "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS"
P2P_STATUS = "DCGM_EXP_P2P_STATUS"
HEALTH_STATUS = "DCGM_EXP_GPU_HEALTH_STATUS"
CLOCK_EVENTS = "DCGM_EXP_CLOCK_EVENTS_COUNT"
IB_RATE = "node_infiniband_rate_bytes_per_second"
IB_SYMBOL = "node_infiniband_symbol_error_total"
IB_RECOVERY = "node_infiniband_link_error_recovery_total"
IB_RCV_ERRORS = "node_infiniband_port_errors_received_total"
IB_DISCARDS = "node_infiniband_port_discards_transmitted_total"
IB_INTEGRITY = "node_infiniband_local_link_integrity_errors_total"
IB_OVERRUN = "node_infiniband_excessive_buffer_overrun_errors_total"
IB_RNR = "node_infiniband_rnr_nak_retry_packets_received_total"
IB_ACK_TIMEOUT = "node_infiniband_local_ack_timeout_errors_total"
ROCE_SLOW_RESTART = "node_infiniband_roce_slow_restart_used_total"
IB_WAIT = "node_infiniband_port_transmit_wait_total"
IB_OUT_OF_ORDER = "node_infiniband_out_of_sequence_packets_received_total"
IB_NOTICES = "node_infiniband_np_cnp_packets_sent_total"
IO_PRESSURE = "node_pressure_io_waiting_seconds_total"
SWITCH_SYMBOL, SWITCH_DOWNED, SWITCH_RECOVERY, SWITCH_RCV_ERRORS, SWITCH_INTEGRITY = (
    f"infiniband_switch_port_{what}_total"  # of the switch's end of a cable, kept on the HCA's port
    for what in ("symbol_error", "link_downed", "link_error_recovery", "receive_errors", "local_link_integrity_errors")
)
SWITCH_BER, FABRIC_ALARM = "infiniband_switch_port_effective_ber", "infiniband_switch_port_alarm"
OF_SWITCHES = (
    SWITCH_SYMBOL, SWITCH_DOWNED, SWITCH_RECOVERY, SWITCH_RCV_ERRORS, SWITCH_INTEGRITY, SWITCH_BER, FABRIC_ALARM,
)  # fmt: skip
NIC_CARRIER = "node_network_carrier_changes_total"
NIC_SPEED = "node_network_speed_bytes"
NIC_RCV_ERRORS, NIC_SEND_ERRORS = "node_network_receive_errs_total", "node_network_transmit_errs_total"
# What the driver of a NIC counts, through node_exporter's ethtool collector (which spells rx and tx out).
NIC_PAUSED, NIC_PAUSES, NIC_PRIO_DISCARDS = (
    tuple(f"node_ethtool_{way}_prio{number}_{what}" for number in range(8))
    for way, what in (("received", "pause"), ("transmitted", "pause"), ("received", "discards"))
)
NIC_DISCARDS, NIC_SYMBOL = "node_ethtool_received_discards_phy", "node_ethtool_received_pcs_symbol_err_phy"
NIC_LINK_DOWN = "node_ethtool_link_down_events_phy"
NIC_STORM_WARNING = "node_ethtool_transmitted_pause_storm_warning_events"
NIC_STORM = "node_ethtool_transmitted_pause_storm_error_events"
FS_READONLY, FS_SIZE, FS_AVAIL = "node_filesystem_readonly", "node_filesystem_size_bytes", "node_filesystem_avail_bytes"
NFS_MAJOR = "node_mountstats_nfs_operations_major_timeouts_total"
NFS_REQUESTS = "node_mountstats_nfs_operations_requests_total"
NFS_RESPONSE = "node_mountstats_nfs_operations_response_time_seconds_total"
SMART_WARNING, SMART_MEDIA = "smartctl_device_critical_warning", "smartctl_device_media_errors"
SMART_STATUS = "smartctl_device_smart_status"
SMART_USED, SMART_SPARE = "smartctl_device_percentage_used", "smartctl_device_available_spare"
SMART_SPARE_MIN = "smartctl_device_available_spare_threshold"
NVME_WARNING, NVME_MEDIA = "nvme_critical_warning", "nvme_media_errors_total"
NVME_USED, NVME_SPARE = "nvme_percentage_used_ratio", "nvme_available_spare_ratio"
NVME_SPARE_MIN = "nvme_available_spare_threshold_ratio"
LUSTRE_HEALTH = "lustre_health_check"
GPFS_STATE, GPFS_MOUNT = "gpfs_state", "gpfs_mount_status"
WEKA_ALERTS = "weka_alerts"
WEKA_DRIVES, WEKA_ALL_DRIVES = "weka_num_drives_active", "weka_num_drives_total"
EDAC_CE, EDAC_UE = "node_edac_correctable_errors_total", "node_edac_uncorrectable_errors_total"
CORRUPTED = "node_memory_HardwareCorrupted_bytes"
HUNG_TASKS = "node_kernel_hung_tasks_total"
IPMI_SENSOR, IPMI_FAN = "ipmi_sensor_state", "ipmi_fan_speed_state"
REDFISH_PSU, REDFISH_FAN = "redfish_chassis_power_powersupply_health", "redfish_chassis_fan_health"
SHARP_INVALID, SHARP_JOBS = "agg_nodes_in_invalid_state", "active_jobs"

_ALL = (
    Metric(XID, "gpu", hi=1e6),
    Metric(XID_COUNT, "gpu", hi=1e9),
    Metric(XID_TOTAL, "gpu", counter=True),
    Metric(GPU_TEMP, "gpu", lo=-40, hi=200, unit="C"),
    Metric("DCGM_FI_DEV_MEMORY_TEMP", "gpu", lo=-40, hi=200, unit="C"),
    Metric(SLOWDOWN_TEMP, "gpu", lo=1, hi=200, unit="C"),
    Metric(CLOCK_REASONS, "gpu", hi=2**32, unit="bits"),
    Metric(ECC_DBE, "gpu", counter=True),
    Metric("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "gpu", counter=True),
    Metric(ROW_REMAP_FAILURE, "gpu", hi=1),
    Metric(ROW_REMAP_PENDING, "gpu", hi=1),
    Metric(REMAPPED_ROWS, "gpu", counter=True),
    Metric("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "gpu", counter=True),
    Metric(RECOVERY_ACTION, "gpu", hi=16),
    Metric(PCIE_REPLAY, "gpu", counter=True),
    Metric(SM_CLOCK, "gpu", hi=1e5, unit="MHz"),
    Metric("DCGM_FI_DEV_MEM_CLOCK", "gpu", hi=1e5, unit="MHz"),
    Metric("DCGM_FI_DEV_POWER_USAGE", "gpu", hi=1e4, unit="W"),
    Metric(GPU_UTIL, "gpu", hi=100, unit="%"),
    Metric("DCGM_FI_DEV_MEM_COPY_UTIL", "gpu", hi=100, unit="%"),
    Metric("DCGM_FI_DEV_FB_FREE", "gpu", hi=1e8, unit="MiB"),
    Metric("DCGM_FI_DEV_FB_USED", "gpu", hi=1e8, unit="MiB"),
    Metric("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric("DCGM_FI_PROF_DRAM_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    Metric("DCGM_FI_PROF_SM_ACTIVE", "gpu", hi=1.01, unit="ratio"),
    *(Metric(name, "gpu", unit="B/s") for name in (*NVLINK_BYTES, *PCIE_BYTES)),
    Metric(NVLINK_TOTAL, "gpu"),
    Metric(IB_STATE, "port", hi=16),
    Metric(IB_PHYSICAL, "port", hi=16),
    Metric(IB_DOWNED, "port", counter=True),
    Metric(IB_RATE, "port", unit="B/s"),
    Metric(IB_SYMBOL, "port", counter=True),
    Metric("node_infiniband_port_data_received_bytes_total", "port", counter=True, unit="B"),
    Metric("node_infiniband_port_data_transmitted_bytes_total", "port", counter=True, unit="B"),
    Metric(MOUNT_ERROR, "mount", hi=1),
    Metric(NODE_TIME, "host", unit="s"),
    Metric(BOOT_TIME, "host", unit="s"),
    Metric(PROCESS_START, "host", unit="s"),
    Metric("node_load1", "host"),
    Metric("node_procs_blocked", "host"),
    Metric(IO_PRESSURE, "host", counter=True, unit="s"),
    Metric("node_memory_MemAvailable_bytes", "host", unit="B"),
    Metric("node_memory_MemTotal_bytes", "host", unit="B"),
    Metric(PCIE_GEN, "gpu", hi=16),
    Metric(PCIE_WIDTH, "gpu", hi=64),
    Metric(PCIE_MAX_GEN, "gpu", hi=16),
    Metric(PCIE_MAX_WIDTH, "gpu", hi=64),
    *(Metric(name, "gpu", counter=True) for name in (SRAM_UCE, SRAM_CE, DRAM_CE, RETIRED_SBE, RETIRED_DBE)),
    *(Metric(name, "gpu", hi=16) for name in (THRESHOLD_SRM, RETIRED_PENDING, FABRIC_MANAGER, FABRIC_HEALTH)),
    *(
        Metric(name, "gpu", counter=True)
        for name in (
            NVLINK_CRC, NVLINK_CRC_DATA, NVLINK_REPLAY, NVLINK_RECOVERY, NVLINK_DL_CRC, NVLINK_DL_REPLAY,
            NVLINK_DL_RECOVERY,
        )
    ),
    Metric(TEMP_MARGIN, "gpu", lo=-200, hi=200, unit="C"),
    Metric(NVLINK_BER, "gpu", hi=1),
    Metric(P2P_STATUS, "gpu", hi=64),
    Metric(HEALTH_STATUS, "gpu", hi=64),
    Metric(CLOCK_EVENTS, "gpu", hi=1e9),
    Metric(SWITCH_FATAL, "switch", hi=1e6),
    *(
        Metric(name, "port", counter=True)
        for name in (
            IB_RECOVERY, IB_RCV_ERRORS, IB_DISCARDS, IB_INTEGRITY, IB_OVERRUN, IB_RNR, IB_ACK_TIMEOUT,
            ROCE_SLOW_RESTART, IB_WAIT, IB_OUT_OF_ORDER, IB_NOTICES,
        )
    ),
    *(
        Metric(name, "port", counter=True)
        for name in (SWITCH_SYMBOL, SWITCH_DOWNED, SWITCH_RECOVERY, SWITCH_RCV_ERRORS, SWITCH_INTEGRITY)
    ),
    Metric(SWITCH_BER, "port", hi=1),
    Metric(FABRIC_ALARM, "port", hi=1),
    *(Metric(name, "nic", counter=True) for name in (NIC_CARRIER, NIC_RCV_ERRORS, NIC_SEND_ERRORS)),
    Metric(NIC_SPEED, "nic", unit="B/s"),
    *(
        Metric(name, "nic", counter=True)
        for name in (
            *NIC_PAUSED, *NIC_PAUSES, *NIC_PRIO_DISCARDS, NIC_DISCARDS, NIC_SYMBOL, NIC_LINK_DOWN, NIC_STORM_WARNING,
            NIC_STORM,
        )
    ),
    Metric(FS_READONLY, "mount", hi=1),
    Metric(FS_SIZE, "mount", unit="B"),
    Metric(FS_AVAIL, "mount", unit="B"),
    *(Metric(name, "mount", counter=True) for name in (NFS_MAJOR, NFS_REQUESTS, NFS_RESPONSE)),
    *(Metric(name, "disk", hi=255) for name in (SMART_WARNING, NVME_WARNING, SMART_USED, SMART_SPARE, SMART_SPARE_MIN)),
    *(Metric(name, "disk", hi=2.56, unit="ratio") for name in (NVME_USED, NVME_SPARE, NVME_SPARE_MIN)),
    *(Metric(name, "disk", counter=True) for name in (SMART_MEDIA, NVME_MEDIA)),
    Metric(LUSTRE_HEALTH, "host", hi=1),
    Metric(GPFS_STATE, "host", hi=1),
    Metric(GPFS_MOUNT, "mount", hi=1),
    *(Metric(name, "host") for name in (WEKA_ALERTS, WEKA_DRIVES, WEKA_ALL_DRIVES)),
    Metric(SMART_STATUS, "disk", hi=1),
    *(Metric(name, "dimm", counter=True) for name in (EDAC_CE, EDAC_UE)),
    Metric(CORRUPTED, "host", unit="B"),
    Metric(HUNG_TASKS, "host", counter=True),
    Metric(IPMI_SENSOR, "psu", hi=16),
    Metric(REDFISH_PSU, "psu", hi=16),
    Metric(IPMI_FAN, "fan", hi=16),
    Metric(REDFISH_FAN, "fan", hi=16),
    Metric(SHARP_INVALID, "host"),
    Metric(SHARP_JOBS, "host"),
)  # fmt: skip
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
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": "DCGM_FI_PROF_DRAM_ACTIVE",
    "DCGM_FI_PROF_SM_UTIL_RATIO": "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS": TEMP_MARGIN,
    "DCGM_FI_DEV_SRAM_EXCEEDED": THRESHOLD_SRM,
    "DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL": RETIRED_SBE,
    "DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL": RETIRED_DBE,
    "DCGM_FI_DEV_PAGE_RETIRED_PENDING": RETIRED_PENDING,
    "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL": NVLINK_CRC,
    "DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL": NVLINK_CRC_DATA,
    "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL": NVLINK_REPLAY,
    "DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL": NVLINK_RECOVERY,
    "DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL": NVLINK_DL_CRC,
    "DCGM_FI_DEV_NVLINK_REPLAY_TOTAL": NVLINK_DL_REPLAY,
    "DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL": NVLINK_DL_RECOVERY,
    "DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO": NVLINK_BER,
    "DCGM_FI_DEV_SXID_FATAL_ERROR": SWITCH_FATAL,
    "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL": NVLINK_TOTAL,
}
# Spelling since DCGM 4.7, which tells base units -> the canonical one, and by what a value is multiplied. In 4.6 the
# first of them was a percentage under the same name: what is more than a ratio is absurd then, and not believed.
SCALED: dict[str, tuple[str, float]] = {
    "DCGM_FI_DEV_GPU_UTIL_RATIO": (GPU_UTIL, 100.0),
    "DCGM_FI_DEV_MEMORY_UTIL_RATIO": ("DCGM_FI_DEV_MEM_COPY_UTIL", 100.0),
    "DCGM_FI_DEV_SM_CLOCK_HERTZ": (SM_CLOCK, 1e-6),
    "DCGM_FI_DEV_MEMORY_CLOCK_HERTZ": ("DCGM_FI_DEV_MEM_CLOCK", 1e-6),
    "DCGM_FI_DEV_FB_FREE_BYTES": ("DCGM_FI_DEV_FB_FREE", 2.0**-20),
    "DCGM_FI_DEV_FB_USED_BYTES": ("DCGM_FI_DEV_FB_USED", 2.0**-20),
    "DCGM_FI_DEV_NVLINK_THROUGHPUT_BYTES_PER_SECOND": (NVLINK_TOTAL, 1e-6),
}

_PCI = re.compile(r"^(?:PCI:)?(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})(?:\.[0-9a-f])?$", re.IGNORECASE)


def canonical(name: str) -> str:
    """The name a metric is known by here, whichever generation of the exporter spelled it."""
    return ALIASES.get(name) or SCALED.get(name, (name, 1.0))[0]


def wanted() -> frozenset[bytes]:
    """Every spelling worth parsing, as bytes for the exposition parser."""
    return frozenset(name.encode() for name in (*METRICS, *(a for a, c in ALIASES.items() if c in METRICS), *SCALED))


def pci(text: str) -> str:
    """One form for a PCI address: `0000:1b:00`. The driver's log and DCGM differ in domain width, case and function."""
    found = _PCI.match(text.strip())
    if not found:
        return text.strip().lower()
    domain, bus, slot = found.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(slot, 16):02x}"
