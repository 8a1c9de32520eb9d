"""Benchmark `detect`: from a fatal kernel line at the observer's door to the committed incident.

Decides the load: every exporter of a simulated fleet scraped all the while, so often that the background is near the
wanted samples per second and no more often than the machine bears, and one fatal line at a time in the way a log
shipper sends it. A push is answered after the commit, which is checked in the database once all are sent. Refuses to
leave out the slow ones.
"""

from __future__ import annotations

import time

from fleet.ops.bench._site import NAME, BenchFailure, post, site

NODES = 256
LINES = 120
PAUSE = 0.15
WANTED_SAMPLES = 150_000.0
SHORTEST, LONGEST = 2.0, 15.0  # seconds between two scrapes of an exporter


def run(nodes: int) -> dict[str, float]:
    with site(nodes) as here:
        interval = min(LONGEST, max(SHORTEST, 700 * nodes / WANTED_SAMPLES))
        here.observe(interval)
        here.synced()
        here.judged()
        token = (here.var / "run" / f"push-{NAME}.token").read_text().strip()
        names = here.node_names()
        chosen = [names[k * len(names) // min(LINES, len(names))] for k in range(min(LINES, len(names)))]
        before, began, spent = here.cpu_seconds(), time.monotonic(), []
        for name in chosen:
            text = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
            record = {"date": time.time(), "host": name, "ident": "kernel", "log": text}
            sent = time.monotonic()
            post(f"{here.push_url}/ingest/logs", token, [record])
            spent.append((time.monotonic() - sent) * 1000)
            time.sleep(PAUSE)
        cores = (here.cpu_seconds() - before) / (time.monotonic() - began)
        found = here.ask("SELECT count(*) FROM health_incident WHERE cause = 'xid-79'")
        if found != len(chosen):
            raise BenchFailure(f"{len(chosen)} lines were answered and {found} incidents are there")
        spent.sort()
        return {
            "n": float(len(spent)),
            "detect_p50_ms": round(spent[len(spent) // 2], 1),
            "detect_p95_ms": round(spent[int(len(spent) * 0.95)], 1),
            "detect_p99_ms": round(spent[int(len(spent) * 0.99)], 1),
            "detect_max_ms": round(spent[-1], 1),
            "background_samples_per_s": round(here.samples_each() * nodes / interval),
            "observer_cores": round(cores, 2),
        }
