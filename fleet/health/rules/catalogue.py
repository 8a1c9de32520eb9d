"""Every rule as data: what it reads, its limit with unit, its window, its severity, its action and where that comes
from.

Decides the defaults. Refuses a site's wishes: those are read and checked in `tuning`.
A limit marked "our choice" has no published source and is a starting point.
"""

from __future__ import annotations

from dataclasses import replace

from fleet.health.rules import events, lines, watched_cables, watched_gpu, watched_host, watched_ports
from fleet.health.rules.types import Rule
from fleet.health.rules.watch import Watched, numbers_of
from fleet.telemetry import names

_HOLDS = ("window", "scrapes", "of", "clear")
_LEVEL = ("threshold", *_HOLDS)
_ALL = (
    Rule(
        "xid-log", "Xid in the kernel log", ("kernel_log",), "kernel_log", "unhealthy", "reset_gpu",
        "NVIDIA Xid catalogue by code; the kernel log is the only complete source of Xids", clear=600.0, latched=True,
        tunes=("clear",),
    ),
    Rule(
        "xid-dcgm", "Xid reported by DCGM", (names.XID, names.XID_COUNT, names.XID_TOTAL), "dcgm", "unhealthy",
        "reset_gpu", "NVIDIA Xid catalogue by code; the metric keeps its last value, so only a change counts",
        latched=True,
    ),
    Rule(
        "xid-repeat", "The same application error under different workloads", ("kernel_log",), "kernel_log",
        "degraded", "confirm", "NVIDIA's workflow for Xid 13 and 31: once is the program's fault, twice on one GPU "
        "(13: in one part of it) within a day asks for a diagnosis", threshold=2, unit="workloads", window=86_400.0,
        latched=True,
        tunes=("threshold", "window"),
    ),
    Rule(
        "dcgm-health-fail", "DCGM health check fails", (names.HEALTH_STATUS,), "dcgm", "unhealthy", "contact_support",
        "DCGM: 20 is a failure; what follows depends on its code, by the table dcgm.csv", unit="status", scrapes=2,
        of=2, tunes=_HOLDS,
    ),
    Rule(
        "dcgm-health-warn", "DCGM health check warns", (names.HEALTH_STATUS,), "dcgm", "degraded", "monitor",
        "DCGM: 10 is a warning", unit="status", scrapes=2, of=2, tunes=_HOLDS,
    ),
    Rule(
        "clock-slowed", "Clocks lowered by hardware, below its peers", (names.CLOCK_REASONS, names.SM_CLOCK), "dcgm",
        "unhealthy", "inspect", "gpud counts the events alone; a clock below that of the other busy GPUs of the node "
        "shows that work is lost (90 % of their median for 2 min is our choice)", threshold=0.9,
        unit="of its peers' clock", window=120.0, scrapes=3, of=4, tunes=_LEVEL,
    ),
    Rule(
        "grey-suspect", "GPU does not work like its peers", ("seven measures of each GPU of a gang",), "dcgm",
        "degraded", "confirm", "published methods of peer comparison; spread and share are our choice and fixed",
    ),
    Rule(
        "gpu-lost", "GPU gone from DCGM", ("GPU series",), "dcgm", "unhealthy", "reboot_node",
        "dcgm-exporter drops every series of a GPU that fell off the bus", threshold=2, unit="scrapes",
        tunes=("threshold",),
    ),
    Rule(
        "gpu-count", "Fewer GPUs than expected", ("GPU series",), "dcgm", "unhealthy", "reboot_node",
        "DCGM reports a device count mismatch as a failure", threshold=1, unit="missing GPUs", scrapes=2, of=2,
        tunes=_LEVEL,
    ),
    Rule(
        "gpu-capacity", "Kubernetes counts fewer GPUs than expected", ("Node.status.capacity",), "kubernetes",
        "degraded", "ticket", "the four counts must agree; two minutes for a restart of the device plugin are our "
        "choice; not judged with MIG, time-slicing, passthrough or claims (DRA)", threshold=1, unit="missing GPUs",
        window=120.0, tunes=("threshold", "window"),
    ),
    Rule(
        "gpu-allocatable", "Kubernetes gives out fewer GPUs than it counts",
        ("Node.status.capacity", "Node.status.allocatable"), "kubernetes", "degraded", "monitor",
        "the device plugin keeps back a GPU after most Xids until it is restarted; two minutes are our choice",
        threshold=1, unit="missing GPUs", window=120.0,
        tunes=("threshold", "window"),
    ),
    Rule(
        "thermal", "GPU slowed down by heat", (names.GPU_TEMP, names.SLOWDOWN_TEMP, names.CLOCK_REASONS), "dcgm",
        "degraded", "inspect", "the GPU's own slowdown limit where DCGM tells it (90 C is our choice where not), or "
        "the hardware thermal bit of its clock reasons", threshold=90.0, unit="C", scrapes=2, of=3,
        tunes=_LEVEL,
    ),
    Rule(
        "ib-down", "InfiniBand port down", (names.IB_STATE, names.IB_PHYSICAL), "node_exporter", "unhealthy", "inspect",
        "gpud and gcm fail a port that is not active and linked (they wait 4 min; 60 s is our choice)",
        unit="state", window=60.0, scrapes=2, of=2, clear=60.0,
        tunes=_HOLDS,
    ),
    Rule(
        "mount-hung", "Mount does not answer", (names.MOUNT_ERROR, "kernel_log"), "node_exporter", "unhealthy",
        "reboot_node", "node_exporter's own stat time-out; gpud compares the last NFS stall with the last OK "
        "(60 s is our choice)",
        unit="flag", window=60.0, scrapes=2, of=2,
        tunes=_HOLDS,
    ),
    Rule(
        "node-not-ready", "Node is not ready", ("Node.status.conditions",), "kubernetes", "unhealthy", "reboot_node",
        "Kubernetes marks a node Unknown after 40 s of silence; 60 s more is our choice", window=60.0,
        tunes=("window",),
    ),
    Rule(
        "clock-skew", "Clock of the node is off", (names.NODE_TIME, "sample timestamps"), "node_exporter", "degraded",
        "monitor", "our choice: a minute is more than any exporter's delay; at 300 s samples are refused",
        threshold=60.0, unit="s", scrapes=2, of=2,
        tunes=_LEVEL,
    ),
    Rule(
        "telemetry-stale", "No fresh telemetry", ("age of each exporter's last answer",), "node_exporter", "degraded",
        "monitor", "our choice: three missed intervals make a node unknown, never healthy", threshold=3,
        unit="intervals",
        tunes=("threshold",),
    ),
)  # fmt: skip
WATCHED: tuple[Watched, ...] = (
    *watched_gpu.WATCHED, *watched_ports.WATCHED, *watched_host.WATCHED, *watched_cables.WATCHED,
)  # fmt: skip


def _of_data(watched: Watched) -> Rule:
    tunes = frozenset[str]().union(*map(numbers_of, watched.watches))
    return replace(watched.rule, tunes=tuple(key for key in _LEVEL if key in tunes))


DEFAULTS: dict[str, Rule] = {
    rule.id: rule for rule in (*_ALL, *lines.RULES, *events.RULES, *(_of_data(watched) for watched in WATCHED))
}
