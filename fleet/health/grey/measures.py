"""What is compared between peers, in which direction it is bad, and in which domain it counts.

Decides the two tables: of GPUs and of network ports. Measures of one domain are one piece of evidence. Every domain but
those in `OWN` follows the load of a part, so it speaks only beside one that does not, or in a gang that slowed down.
Refuses utilisation as evidence: in synchronous work everybody who waits is busy too, so it only tells who works at all.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fleet.telemetry import names

LOW, HIGH, EITHER = -1, 1, 0
Domain = Literal["clock", "power", "thermal", "compute", "memory", "nvlink", "pcie", "traffic", "waiting", "retries"]
# `gauge`: as it is. `rate`: a counter, by the second. `level`: called a counter, and only its course tells what it is.
How = Literal["gauge", "rate", "level"]


@dataclass(frozen=True, slots=True)
class Measure:
    """`bad` is the direction that speaks against a part. `floor` keeps a spread of nothing from dividing by it.

    `of` are metrics whose values are added up; `instead` is read where they are not there. `pattern`: the course of the
    whole window is compared too.
    """

    name: str
    domain: Domain
    bad: int
    unit: str
    floor: float
    of: tuple[str, ...]
    how: How = "gauge"
    instead: str = ""
    pattern: bool = False


CLOCK, POWER, TENSOR, DRAM = "SM clock", "power", "tensor activity", "memory activity"
NVLINK, WAITING = "NVLink traffic", "transmit wait"
GPU_MEASURES: tuple[Measure, ...] = (
    Measure(CLOCK, "clock", LOW, "MHz", 1.0, ("DCGM_FI_DEV_SM_CLOCK",), pattern=True),
    Measure(POWER, "power", EITHER, "W", 1.0, ("DCGM_FI_DEV_POWER_USAGE",), pattern=True),
    Measure("temperature", "thermal", HIGH, "°C", 1.0, (names.GPU_TEMP,), pattern=True),
    Measure("memory temperature", "thermal", HIGH, "°C", 1.0, ("DCGM_FI_DEV_MEMORY_TEMP",)),
    # Who is waited for computes while the others wait: more than its peers is as strange as less.
    Measure("SM activity", "compute", EITHER, "", 1e-3, ("DCGM_FI_PROF_SM_ACTIVE",)),
    Measure(TENSOR, "compute", EITHER, "", 1e-3, ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",), pattern=True),
    Measure(DRAM, "memory", EITHER, "", 1e-3, ("DCGM_FI_PROF_DRAM_ACTIVE",)),
    Measure("memory copies", "memory", EITHER, "%", 0.1, ("DCGM_FI_DEV_MEM_COPY_UTIL",)),
    Measure(NVLINK, "nvlink", LOW, "B/s", 1e6, names.NVLINK_BYTES, instead=names.NVLINK_TOTAL, pattern=True),
    Measure("PCIe traffic", "pcie", LOW, "B/s", 1e6, names.PCIE_BYTES),
)
PORT_MEASURES: tuple[Measure, ...] = (
    Measure("received", "traffic", LOW, "B/s", 1e6, ("node_infiniband_port_data_received_bytes_total",), "rate"),
    Measure("sent", "traffic", LOW, "B/s", 1e6, ("node_infiniband_port_data_transmitted_bytes_total",), "rate"),
    # Ticks of 4 ns or so in which a packet stood ready and could not go: a million of them are some ms in each second.
    Measure(WAITING, "waiting", HIGH, "ticks/s", 1e6, (names.IB_WAIT,), "rate"),
    Measure("packets out of order", "retries", HIGH, "/s", 2.0, (names.IB_OUT_OF_ORDER,), "rate"),
    Measure("lost answers", "retries", HIGH, "/s", 1.0, (names.IB_ACK_TIMEOUT,), "rate"),
    Measure("congestion notices", "retries", HIGH, "/s", 100.0, (names.IB_NOTICES,), "rate"),
)
ACTIVITY = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
ACTIVITY_FALLBACK = names.GPU_UTIL
IDLE, IDLE_UTIL = 0.05, 5.0
# What no difference in load explains. A clock or a temperature does not count where the part draws more power than its
# peers: then its work is heavier, and a cap on power holds the clock down as it should.
OWN: frozenset[Domain] = frozenset({"clock", "thermal", "waiting", "retries"})
MORE_POWER = 0.03
# But not this far: power grows with about the cube of the clock, so such work would want more than twice the power.
CAPPED = 0.75
SAME_WORK = 0.05  # tensor activity so near to that of the peers is the same work


def places(measures: tuple[Measure, ...], *domains: str) -> list[int]:
    return [place for place, measure in enumerate(measures) if measure.domain in domains]
