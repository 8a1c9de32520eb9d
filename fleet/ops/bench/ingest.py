"""Benchmark `ingest`: how fast exposition text becomes samples, against the official Python parser in the same run.

Decides the load: dcgm-exporter-like text of several nodes, eight GPUs each, every value new in every scrape, and remote
write requests of the same; read warm by the series cache, all in one thread, by that thread's processor time. The peers
read the same bytes. Refuses to compare runs: ratio and baseline are of one.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from prometheus_client.parser import text_string_to_metric_families

from fleet.ops.bench import _writes as writes
from fleet.telemetry import packing, remotewrite, remotewrite2
from fleet.telemetry.exposition import parse
from fleet.telemetry.remotewrite import PushCache
from fleet.telemetry.seriescache import SeriesCache

GPUS, FAMILIES, TEXTS = 8, 40, 4
SECONDS, TURNS = 1.5, 3
WRITE_SERIES = 2000
CHURN_SERIES = 1_000_000
CHURN_SECONDS = 3600.0


def text(node: str, seed: int) -> bytes:
    """One scrape of one node."""
    rng = random.Random(seed)
    lines: list[str] = []
    for family in range(FAMILIES):
        name = f"DCGM_FI_DEV_BENCH_{family}"
        lines += [f"# HELP {name} A measure of the benchmark.", f"# TYPE {name} gauge"]
        for gpu in range(GPUS):
            labels = (
                f'gpu="{gpu}",UUID="GPU-{node}-{gpu:012d}",pci_bus_id="00000000:{gpu + 27:02X}:00.0",'
                f'device="nvidia{gpu}",modelName="NVIDIA H100 80GB HBM3",Hostname="{node}",'
                'DCGM_FI_DRIVER_VERSION="570.172.08",container="main",namespace="train",pod="llm-7-worker-3"'
            )
            lines.append(f"{name}{{{labels}}} {rng.uniform(0, 2000):.3f}")
    return ("\n".join(lines) + "\n").encode()


class _Reader:
    def __init__(self) -> None:
        self.ids: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}

    def new(self, name: str, labels: dict[str, str], declared: str) -> int:
        return self.ids.setdefault((name, tuple(sorted(labels.items()))), len(self.ids))


def _rates(*works: Callable[[], int]) -> list[float]:
    """Done per second of one core, the best of three turns each. The works take turns, and the clock is the thread's
    own, so that a busy machine lends its noise to neither side of a ratio."""
    best = [0.0] * len(works)
    for _ in range(TURNS):
        for place, work in enumerate(works):
            done, began = 0, time.thread_time()
            while (spent := time.thread_time() - began) < SECONDS / TURNS:
                done += work()
            best[place] = max(best[place], done / spent)
    return best


def _writes() -> dict[str, float]:
    """Remote write, from the packed body to rows, values and times."""
    reader, cache, cache2, turn = _Reader(), PushCache(), PushCache(), 0
    bodies = [writes.first(WRITE_SERIES, seed) for seed in range(TEXTS)]
    bodies2 = [writes.second(WRITE_SERIES, seed) for seed in range(TEXTS)]
    decode = writes.peer()

    def place(labels: dict[str, str]) -> int:
        return reader.new("", labels, "")

    def ours() -> int:
        nonlocal turn
        turn += 1
        series = remotewrite.split(packing.snappy(bodies[turn % TEXTS]))
        return len(remotewrite.read(series, cache, place).rows)

    def ours2() -> int:
        nonlocal turn
        turn += 1
        request = remotewrite2.Request(packing.snappy(bodies2[turn % TEXTS]))
        return len(request.read(0, len(request), cache2, place).rows)

    def theirs() -> int:
        nonlocal turn
        turn += 1
        return decode(bodies[turn % TEXTS])

    ours(), ours2(), theirs()
    fast, second, slow = _rates(ours, ours2, theirs)
    return {
        "rw1_samples_per_s": round(fast),
        "baseline_rw1_samples_per_s": round(slow),
        "rw1_ratio": round(fast / slow, 1),
        "rw2_samples_per_s": round(second),
    }


def _churn() -> dict[str, float]:
    """An hour in which a million series are new: what their labels leave behind in memory."""
    cache, seen, plain = PushCache(), 0, writes.first(WRITE_SERIES, 0, "pod-00000000")
    before = most = writes.resident_mib()
    began = time.perf_counter()
    while seen < CHURN_SERIES:
        cache.now = seen / CHURN_SERIES * CHURN_SECONDS
        body = packing.snappy(plain).replace(b"pod-00000000", b"pod-%08d" % seen)
        series = remotewrite.split(body)
        seen += len(remotewrite.read(series, cache, lambda labels: 0).rows)
        most = max(most, writes.resident_mib())
    spent = time.perf_counter() - began
    return {"churn_series": seen, "churn_rss_mib": round(most - before, 1), "churn_s": round(spent, 1)}


def run(nodes: int) -> dict[str, float]:
    """Samples per second, warm, and the peer's on the same texts. `nodes` is capped: more change nothing but memory."""
    count = max(1, min(nodes, 64))
    texts = [[text(f"n{node:05d}", node * TEXTS + seed) for seed in range(TEXTS)] for node in range(count)]
    caches = [SeriesCache() for _ in range(count)]
    reader = _Reader()
    turn = 0

    def ours() -> int:
        nonlocal turn
        turn += 1
        return sum(
            len(parse(bodies[turn % TEXTS], cache, reader.new).rows)
            for bodies, cache in zip(texts, caches, strict=True)
        )

    def theirs() -> int:
        return sum(len(family.samples) for family in text_string_to_metric_families(texts[0][0].decode()))

    ours()
    fast, slow = _rates(ours, theirs)
    return {
        "n": float(count * FAMILIES * GPUS),
        "text_samples_per_s": round(fast),
        "baseline_text_samples_per_s": round(slow),
        "text_ratio": round(fast / slow, 1),
        **_writes(),
        **_churn(),
    }
