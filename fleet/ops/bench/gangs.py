"""Benchmark `gangs`: every gang of a cluster judged anew, and one change of it.

Decides what is timed. `full_s`: from what the watches told to the reason of each gang and the columns of its row,
nothing kept from before. `incremental_ms`: the 95th of a hundred after one pod, node or object changed. The load is in
`_gangscene`. Refuses to write rows.
"""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from fleet.gangs.rows import Columns
from fleet.ops.bench._gangscene import NODES_PER_GANG, Scene, a_member, a_node, scene
from fleet.ports.gangs import Spoken

CHANGES, LOOKS = 100, 3


def run(nodes: int) -> dict[str, float]:
    here = scene(nodes)
    full = [_full(here) for _ in range(LOOKS)]
    columns = Columns()
    made = here.judge()
    columns.of(made)
    taken = sorted(_timed(here, columns, change) for change in _changes(here))
    return {
        "full_s": round(statistics.median(full), 3),
        "incremental_ms": round(1000 * taken[int(0.95 * len(taken))], 1),
        "incremental_p50_ms": round(1000 * statistics.median(taken), 1),
        "incremental_max_ms": round(1000 * taken[-1], 1),
        "rss_mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        "pods": float(len(here.members)),
        "gangs": float(len(made.gangs)),
        "with_reason": float(len(made.reasons)),
        "n": float(len(taken)),
    }


def _full(here: Scene) -> float:
    here.feed()
    began = time.perf_counter()
    Columns().of(here.judge())
    return time.perf_counter() - began


def _timed(here: Scene, columns: Columns, change: Callable[[], None]) -> float:
    began = time.perf_counter()
    change()
    columns.of(here.judge())
    return time.perf_counter() - began


def _changes(here: Scene) -> Iterator[Callable[[], None]]:
    """A pod that ends or starts, a node that is cordoned, an object whose queue changes it, in turn."""
    names = list(here.nodes)
    for k in range(CHANGES):
        n = k * max(1, len(here.objects) // CHANGES) % len(here.objects)
        one = here.objects[n]
        match k % 4:
            case 0:
                yield partial(here.roster.leave, f"train/{one.ref.name}-0")
            case 1:
                node, need = names[n * NODES_PER_GANG], here.members[0].need
                yield partial(here.roster.member, a_member(one.ref, 0, node, need, ready=False))
            case 2:
                name = names[n * NODES_PER_GANG]
                yield partial(here.nodes.__setitem__, name, a_node(name, n * NODES_PER_GANG, unschedulable=True))
            case _:
                changed = replace(one, priority=one.priority + 1)
                yield partial(here.roster.speak, one.ref.system, Spoken(one.ref.key, (changed,)))
