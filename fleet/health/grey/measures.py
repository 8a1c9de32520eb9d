"""What is compared between peers, in which direction it is bad, and in which domain it counts.

Decides the table. Two measures of one domain are one piece of evidence. Refuses utilisation as evidence: in synchronous
work everybody who waits is busy too, so it only tells who works at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LOW, HIGH, EITHER = -1, 1, 0


@dataclass(frozen=True, slots=True)
class Measure:
    """`bad` is the direction that speaks against a GPU. `floor` keeps a spread of nothing from dividing by it."""

    metric: str
    name: str
    domain: Literal["clock", "power", "thermal", "compute", "memory"]
    bad: int
    unit: str
    floor: float


MEASURES: tuple[Measure, ...] = (
    Measure("DCGM_FI_DEV_SM_CLOCK", "SM clock", "clock", LOW, "MHz", 1.0),
    Measure("DCGM_FI_DEV_POWER_USAGE", "power", "power", EITHER, "W", 1.0),
    Measure("DCGM_FI_DEV_GPU_TEMP", "temperature", "thermal", HIGH, "°C", 1.0),
    Measure("DCGM_FI_DEV_MEMORY_TEMP", "memory temperature", "thermal", HIGH, "°C", 1.0),
    # Who is waited for computes while the others wait: more than its peers is as strange as less.
    Measure("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor activity", "compute", EITHER, "", 1e-3),
    Measure("DCGM_FI_PROF_DRAM_ACTIVE", "memory activity", "memory", EITHER, "", 1e-3),
    Measure("DCGM_FI_DEV_MEM_COPY_UTIL", "memory copies", "memory", EITHER, "%", 0.1),
)
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ACTIVITY_FALLBACK = "DCGM_FI_DEV_GPU_UTIL"
IDLE, IDLE_UTIL = 0.05, 5.0
DOMAINS = tuple(dict.fromkeys(measure.domain for measure in MEASURES))
