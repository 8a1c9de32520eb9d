"""Benchmark `cordon`: from a fatal kernel line at the observer's door to the answered patch that cordons its node.

Decides two loads: one line at a time on a fleet whose every exporter is scraped all the while, under the default caps;
and half a fleet at once, with caps open and the breaker off. The end is the API server's answer to the patch, as the
intent's row has it. Refuses to leave out a node: one that is not cordoned fails the benchmark.
"""

from __future__ import annotations

import time
from typing import Any

from fleet.ops.bench import _acting as acting
from fleet.ops.bench import _background as background
from fleet.ops.bench._site import NAME, Site, post, site
from fleet.ops.bench.detect import LONGEST, SHORTEST, TEXT, WANTED_SAMPLES

NODES = 1000
BURST_NODES = 1500
LINES = 60
PAUSE = 0.5


def run(nodes: int) -> dict[str, Any]:
    burst = nodes * 3 // 2
    return {**single(nodes), **at_once(burst, burst // 2), "n": float(LINES), "policy": "default; burst: caps open"}


def quick(nodes: int) -> dict[str, Any]:
    """A fleet of a tenth, which shows the same path."""
    return run(max(80, nodes // 10))


def single(nodes: int) -> dict[str, float]:
    with site(nodes) as here:
        interval = min(LONGEST, max(SHORTEST, background.divert(here) / WANTED_SAMPLES))
        acting.automate(here)
        acting.start(here)
        here.observe(interval)
        here.synced()
        here.judged()
        time.sleep(3 * interval)
        names = here.node_names()
        count = min(LINES, len(names) // 8)
        chosen = [names[k * len(names) // count] for k in range(count)]
        sent, before, began, done = {}, here.cpu_by_part(), time.monotonic(), background.answered()
        for name in chosen:
            sent[name] = time.time()
            _lines(here, [name])
            time.sleep(PAUSE)
        found = acting.all_cordoned(here, chosen, 60)
        took = time.monotonic() - began
        spent = [found[name] - sent[name] for name in chosen]
        cores = {part: round((now - before.get(part, 0.0)) / took, 2) for part, now in here.cpu_by_part().items()}
        return {
            "single_p50_s": round(acting.share(spent, 0.5), 3),
            "single_p99_s": round(acting.share(spent, 0.99), 3),
            "single_background_samples_per_s": round((background.answered() - done) / took),
            **{f"single_cores_{part}": used for part, used in cores.items()},
        }


def at_once(nodes: int, sick: int) -> dict[str, float]:
    with site(nodes) as here:
        acting.automate(here)
        acting.open_caps(here)
        acting.settle(here, "INSERT INTO policy_cap (kind, scope, absolute) VALUES ('take_out', 'fleet', 1)")
        acting.start(here, workers=2)
        here.observe(LONGEST)
        here.synced()
        here.judged()
        chosen = here.node_names()[:sick]
        began = time.time()
        _lines(here, chosen)
        found = acting.all_cordoned(here, chosen, 180)
        spent = [found[name] - began for name in chosen]
        return {
            "burst750_n": float(sick),
            "burst750_p50_s": round(acting.share(spent, 0.5), 2),
            "burst750_p99_s": round(acting.share(spent, 0.99), 2),
        }


def _lines(here: Site, names: list[str]) -> None:
    """As a log shipper sends them: one batch."""
    token = (here.var / "run" / f"push-{NAME}.token").read_text().strip()
    now = time.time()
    post(
        f"{here.push_url}/ingest/logs",
        token,
        [{"date": now, "host": name, "ident": "kernel", "log": TEXT} for name in names],
    )
