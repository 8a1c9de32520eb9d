"""Benchmark `grey`: suspicions of healthy gangs, and how many slow parts are found, how soon, and under which name.

Decides days of healthy gangs at work (even ones, pipelines whose stages nobody names, experts that swing, checkpoints,
jobs that end, hot rows, lost answers) and then one fault at a time in the same gangs. One of each kind of gang makes
`NODES` nodes; more are as many times all of them. Refuses the rules and incidents: what is measured is the comparison
of peers alone.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fleet.health.grey.watch import Watch
from fleet.ops.bench._gangwork import EVERY, KINDS, Gangs

NODES = 110  # one of each kind of gang
PATIENT = True
DAYS, QUICK_DAYS = 3.0, 0.25
EACH = 8
WARM, WATCHED = 80, 60  # samples before a fault, and after
COMPANY = ("dp", 2)  # other work on the same model of GPU
BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Fault:
    """`of_port`: it sits on a port, not on a GPU. `kinds`: where it is tried."""

    name: str
    begin: Callable[[Gangs, int], None]
    of_port: bool = False
    kinds: tuple[str, ...] = ("dp", "stages", "experts")
    least: int = 1  # nodes of the gang


def _clock(share: float) -> Callable[[Gangs, int], None]:
    def begin(gangs: Gangs, gpu: int) -> None:
        gangs.broken.clock[gpu] = share

    return begin


def _hot(gangs: Gangs, gpu: int) -> None:
    gangs.broken.clock[gpu], gangs.broken.heat[gpu] = 0.7, 24.0


def _memory(gangs: Gangs, gpu: int) -> None:
    gangs.broken.speed[gpu] = 0.7


def _copies(gangs: Gangs, gpu: int) -> None:
    gangs.broken.copies[gpu] = 0.5


def _port(gangs: Gangs, port: int) -> None:
    gangs.broken.port[port] = 0.25


FAULTS = (
    Fault("clock_15", _clock(0.85)),
    Fault("clock_30", _clock(0.70)),
    Fault("clock_50", _clock(0.50)),
    Fault("thermal", _hot),
    Fault("slow_memory", _memory, least=2),
    Fault("slow_pcie", _copies, least=2),
    Fault("slow_port", _port, of_port=True, least=2),
    Fault("clock_30_of_4", _clock(0.70), kinds=("half",)),
    Fault("thermal_of_4", _hot, kinds=("half",)),
)


def run(nodes: int) -> dict[str, float]:
    found = _healthy(KINDS * max(1, nodes // NODES), DAYS)
    for fault in FAULTS:
        found |= _faulty(fault, EACH)
    return found


def quick(nodes: int) -> dict[str, float]:
    found = _healthy(KINDS * max(1, nodes // NODES), QUICK_DAYS)
    for fault in FAULTS:
        found |= _faulty(fault, 2)
    return found


def _healthy(kinds: tuple[tuple[str, int], ...], days: float) -> dict[str, float]:
    gangs = Gangs(kinds, seed=7)
    watch = Watch(gangs.frame)
    false, judged, looks, steps = 0, 0, 0, round(days * 86400 / EVERY)
    for step in range(steps):
        suspects, seen, _few = _step(gangs, watch, step)
        for node, device in suspects:
            print(f"false: {node} {device} at {gangs.now / 3600:.1f} h", file=sys.stderr)
        false, judged, looks = false + len(suspects), judged + seen, looks + step % 2
    return {
        "healthy_days": days,
        "healthy_node_days": days * gangs.nodes,
        "healthy_suspects": float(false),
        "healthy_judged_share": round(judged / max(1, looks) / gangs.n, 3),
    }


def _step(gangs: Gangs, watch: Watch, step: int) -> tuple[list[tuple[str, str]], int, int]:
    """Half a minute; who became suspect, and how many GPUs were judged."""
    gangs.step()
    watch.sample(gangs.mono)
    if step % 2 == 0:
        return [], 0, 0
    look = watch.look(gangs.gangs_by_node(), BEGAN + timedelta(seconds=gangs.now), gangs.mono)
    return [(edge.node, edge.device) for edge in look.suspects], look.judged, look.few


def _faulty(fault: Fault, times: int) -> dict[str, float]:
    minutes: list[float] = []
    wrong, tried = 0, 0
    for number in range(times):
        places = [place for place, (kind, size) in enumerate(KINDS) if kind in fault.kinds and size >= fault.least]
        place = places[number % len(places)]
        gangs = Gangs((KINDS[place], COMPANY), seed=100 + number)
        gangs.gangs[0].born = 0.0
        watch = Watch(gangs.frame)
        took, others = _one(fault, gangs, watch, int(gangs.random.choice(gangs.gangs[0].gpus)))
        tried, wrong = tried + 1, wrong + others
        if took is not None:
            minutes.append(took)
    return {
        f"{fault.name}_tried": float(tried),
        f"{fault.name}_found": float(len(minutes)),
        f"{fault.name}_minutes_p50": round(statistics.median(minutes), 1) if minutes else -1.0,
        f"{fault.name}_minutes_max": round(max(minutes), 1) if minutes else -1.0,
        f"{fault.name}_wrong": float(wrong),
    }


def _one(fault: Fault, gangs: Gangs, watch: Watch, part: int) -> tuple[float | None, int]:
    """Minutes until the part was suspect, None if it never was; and how many others were."""
    name = (gangs.ports if fault.of_port else gangs.parts)[part]
    took, wrong, began = None, 0, 0.0
    for step in range(WARM + WATCHED):
        if step == WARM:
            fault.begin(gangs, part)
            began = gangs.now
        for suspect in _step(gangs, watch, step)[0]:
            if suspect == name and step >= WARM:
                took = (gangs.now - began) / 60
            else:
                wrong += 1
    return took, wrong
