"""The questions we ask a metrics API.

Decides one expression per metric, aggregated to the labels that tell its series apart, so that pods, containers and
scrape jobs neither multiply the answer nor split a series; and one heartbeat per kind of exporter, which gives the time
of its last sample: the time in an instant answer is only that of the question. Refuses range selectors for values,
because they go on showing a series that its exporter has ended. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fleet.telemetry import names
from fleet.telemetry.names import METRICS, DeviceKind, Metric

WHOSE = ("Hostname", "hostname", "node", "instance")
GPU_IDENTITY = ("UUID", "gpu_uuid", "uuid", "pci_bus_id")
GPU_FACTS = (
    "gpu", "modelName", "model_name", "DCGM_FI_DRIVER_VERSION", "DCGM_FI_SYSTEM_DRIVER_VERSION", "DCGM_FI_DEV_SERIAL",
)  # fmt: skip
DEVICE: dict[DeviceKind, tuple[str, ...]] = {
    "gpu": (*GPU_IDENTITY, "GPU_I_ID", "xid", "clock_event", "health_watch", "peer_gpu", "nvlink"),
    "switch": ("nvswitch",),
    "port": ("device", "port"),
    "nic": ("device",),
    "mount": ("mountpoint", "mount", "fstype", "device", "device_error", "export", "operation"),
    "disk": ("device", "disk"),
    "psu": ("power_supply", "power_supply_id", "name", "type"),
    "fan": ("fan", "fan_id", "name"),
    "dimm": ("controller",),
    "host": ("state", "title", "type"),
}
JOBS: dict[DeviceKind, str] = {"gpu": "dcgm", "switch": "dcgm"}  # everything else belongs to the node's exporter
HEARTBEATS = {"dcgm": (names.GPU_TEMP, (*GPU_IDENTITY, *GPU_FACTS)), "node": (names.NODE_TIME, ())}
NEVER_ASKED = frozenset({names.PROCESS_START, *names.OF_SWITCHES})  # every process has the one; the others, no node


@dataclass(frozen=True, slots=True)
class Question:
    """`metric` is what the answer is of; a heartbeat's values are times."""

    metric: Metric
    job: str
    expression: str
    heartbeat: bool = False


def spellings(name: str) -> list[str]:
    """A metric's names through the generations of its exporter, the canonical one first."""
    return [name, *sorted(alias for alias, canonical in names.ALIASES.items() if canonical == name)]


def scaled(name: str) -> list[tuple[str, float]]:
    """Its names that tell another unit, and by what a value of each is multiplied."""
    return [(spelled, factor) for spelled, (canonical, factor) in names.SCALED.items() if canonical == name]


def selector(name: str, match: str = "") -> str:
    """All spellings of a metric, within the site's matchers."""
    known = spellings(name)
    if len(known) == 1:
        return f"{name}{{{match}}}" if match else name
    inside = f'__name__=~"{"|".join(known)}"'
    return f"{{{inside},{match}}}" if match else f"{{{inside}}}"


def value(name: str, match: str = "") -> Question:
    metric = METRICS[name]
    by = ", ".join((*WHOSE[: 3 if metric.kind == "gpu" else 4], *DEVICE[metric.kind]))
    inside = [selector(name, match), *(f"{spelled}{{{match}}} * {factor:.12g}" for spelled, factor in scaled(name))]
    return Question(metric, job_of(metric), f"max by ({by}) ({' or '.join(inside)})")


def heartbeat(job: str, match: str = "") -> Question:
    """When each exporter (of GPUs: each GPU) was last sampled."""
    name, facts = HEARTBEATS[job]
    by = ", ".join((*WHOSE[: 3 if job == "dcgm" else 4], *facts))
    asked = " or ".join(f"timestamp({spelled}{{{match}}})" for spelled in spellings(name))
    return Question(METRICS[name], job, f"max by ({by}) ({asked})", heartbeat=True)


def job_of(metric: Metric) -> str:
    return JOBS.get(metric.kind, "node")


def questions(wanted: Iterable[str], match: str = "") -> tuple[list[Question], list[Question]]:
    """(heartbeats, values) for everything of `wanted` that is a metric we keep."""
    asked = sorted({name for name in wanted if name in METRICS} - NEVER_ASKED)
    return [heartbeat(job, match) for job in HEARTBEATS], [value(name, match) for name in asked]
