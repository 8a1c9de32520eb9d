"""Every rule as data: what it reads, its limit with unit, its window, its severity, its action and where that comes
from.

Decides the defaults. Refuses a site's wishes: those are read and checked in `tuning`.
A limit marked "our choice" has no published source and is a starting point.
"""

from __future__ import annotations

from fleet.health.rules import events, lines, watched_cables, watched_gpu, watched_host
from fleet.health.rules.types import Rule
from fleet.health.rules.watch import Watched
from fleet.telemetry import names

_ALL = (
    Rule(
        "xid-log", "Xid in the kernel log", ("kernel_log",), "kernel_log", "unhealthy", "reset_gpu",
        "NVIDIA Xid catalogue by code; the kernel log is the only complete source of Xids", clear=600.0, latched=True,
    ),
    Rule(
        "xid-dcgm", "Xid reported by DCGM", (names.XID,), "dcgm", "unhealthy", "reset_gpu",
        "NVIDIA Xid catalogue by code; the metric keeps its last value, so only a change counts", latched=True,
    ),
    Rule(
        "gpu-lost", "GPU gone from DCGM", ("GPU series",), "dcgm", "unhealthy", "reboot_node",
        "dcgm-exporter drops every series of a GPU that fell off the bus", threshold=2, unit="scrapes",
    ),
    Rule(
        "gpu-count", "Fewer GPUs than expected", ("GPU series",), "dcgm", "unhealthy", "reboot_node",
        "DCGM reports a device count mismatch as a failure", threshold=1, unit="missing GPUs", scrapes=2, of=2,
    ),
    Rule(
        "gpu-capacity", "Kubernetes counts fewer GPUs than expected", ("Node.status.capacity",), "kubernetes",
        "degraded", "ticket", "the four counts must agree; two minutes for a restart of the device plugin are our "
        "choice; not judged with MIG, time-slicing or passthrough", threshold=1, unit="missing GPUs", window=120.0,
    ),
    Rule(
        "gpu-allocatable", "Kubernetes gives out fewer GPUs than it counts",
        ("Node.status.capacity", "Node.status.allocatable"), "kubernetes", "degraded", "monitor",
        "the device plugin keeps back a GPU after most Xids until it is restarted; two minutes are our choice",
        threshold=1, unit="missing GPUs", window=120.0,
    ),
    Rule(
        "ecc-dbe", "Uncorrectable memory error", (names.ECC_DBE,), "dcgm", "unhealthy", "reset_gpu",
        "gcm fails a node on any new volatile double-bit error", threshold=1, unit="errors", latched=True,
    ),
    Rule(
        "row-remap-failure", "Memory row remapping failed", (names.ROW_REMAP_FAILURE,), "dcgm", "unhealthy",
        "replace_part", "NVIDIA, gpud and AzNHC agree: the GPU is to be returned", threshold=1, unit="flag",
        scrapes=2, of=3,
    ),
    Rule(
        "thermal", "GPU slowed down by heat", (names.GPU_TEMP, names.SLOWDOWN_TEMP, names.CLOCK_REASONS), "dcgm",
        "degraded", "inspect", "the GPU's own slowdown limit where DCGM tells it (90 C is our choice where not), or "
        "the hardware thermal bit of its clock reasons", threshold=90.0, unit="C", scrapes=2, of=3,
    ),
    Rule(
        "ib-down", "InfiniBand port down", (names.IB_STATE, names.IB_PHYSICAL), "node_exporter", "unhealthy", "inspect",
        "gpud and gcm fail a port that is not active and linked (they wait 4 min; 60 s is our choice)",
        threshold=4, unit="state", window=60.0, scrapes=2, of=2, clear=60.0,
    ),
    Rule(
        "ib-flap", "InfiniBand port flapping", (names.IB_DOWNED,), "node_exporter", "degraded", "inspect",
        "gpud counts three drops as flapping", threshold=3, unit="drops", window=600.0,
    ),
    Rule(
        "mount-hung", "Mount does not answer", (names.MOUNT_ERROR, "kernel_log"), "node_exporter", "unhealthy",
        "reboot_node", "node_exporter's own stat time-out; gpud compares the last NFS stall with the last OK "
        "(60 s is our choice)",
        threshold=1, unit="flag", window=60.0, scrapes=2, of=2,
    ),
    Rule(
        "node-not-ready", "Node is not ready", ("Node.status.conditions",), "kubernetes", "unhealthy", "reboot_node",
        "Kubernetes marks a node Unknown after 40 s of silence; 60 s more is our choice", threshold=60.0, unit="s",
        window=60.0,
    ),
    Rule(
        "clock-skew", "Clock of the node is off", (names.NODE_TIME, "sample timestamps"), "node_exporter", "degraded",
        "monitor", "our choice: a minute is more than any exporter's delay; at 300 s samples are refused",
        threshold=60.0, unit="s", scrapes=2, of=2,
    ),
    Rule(
        "telemetry-stale", "No fresh telemetry", ("age of each exporter's last answer",), "node_exporter", "degraded",
        "monitor", "our choice: three missed intervals make a node unknown, never healthy", threshold=3,
        unit="intervals",
    ),
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (*watched_gpu.WATCHED, *watched_host.WATCHED, *watched_cables.WATCHED)
DEFAULTS: dict[str, Rule] = {
    rule.id: rule for rule in (*_ALL, *lines.RULES, *events.RULES, *(watched.rule for watched in WATCHED))
}
