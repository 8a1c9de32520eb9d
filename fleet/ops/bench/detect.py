"""Benchmark `detect`: from a fatal kernel line at the observer's door to the committed incident.

Decides the load: every exporter of a fleet scraped all the while, as often as makes the wanted samples per second, from
texts that cost their sender next to nothing, so that two cores are enough to load and to measure one observer; and one
fatal line at a time in the way a log shipper sends it. A push is answered after the commit, which is checked in the
database once all are sent. Refuses to leave out the slow ones, and to call the load more than was answered.
"""

from __future__ import annotations

import time

from fleet.ops.bench import _background as background
from fleet.ops.bench._site import NAME, BenchFailure, post, site

NODES = 1000
LINES = 120
PAUSE = 0.15
WANTED_SAMPLES = 160_000.0  # asked for; what is answered is what counts
SHORTEST, LONGEST = 1.0, 15.0  # seconds between two scrapes of an exporter
TEXT = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."


def run(nodes: int) -> dict[str, float]:
    with site(nodes) as here:
        interval = min(LONGEST, max(SHORTEST, background.divert(here) / WANTED_SAMPLES))
        here.observe(interval)
        here.synced()
        here.judged()
        time.sleep(3 * interval)
        token = (here.var / "run" / f"push-{NAME}.token").read_text().strip()
        names = here.node_names()
        chosen = [names[k * len(names) // min(LINES, len(names))] for k in range(min(LINES, len(names)))]
        before, began, done, spent = here.cpu_seconds(), time.monotonic(), background.answered(), []
        for name in chosen:
            record = {"date": time.time(), "host": name, "ident": "kernel", "log": TEXT}
            sent = time.monotonic()
            post(f"{here.push_url}/ingest/logs", token, [record])
            spent.append((time.monotonic() - sent) * 1000)
            time.sleep(PAUSE)
        took = time.monotonic() - began
        rate, cores = (background.answered() - done) / took, (here.cpu_seconds() - before) / took
        found = here.ask("SELECT count(*) FROM health_incident WHERE cause = 'xid-79'")
        if found != len(chosen):
            raise BenchFailure(f"{len(chosen)} lines were answered and {found} incidents are there")
        spent.sort()
        p50, p99 = (round(spent[int(len(spent) * share)], 1) for share in (0.5, 0.99))
        return {
            "n": float(len(spent)),
            "incident_p50_ms": p50,
            "incident_p95_ms": round(spent[int(len(spent) * 0.95)], 1),
            "incident_p99_ms": p99,
            "incident_max_ms": round(spent[-1], 1),
            "background_samples_per_s": round(rate),
            "interval_s": round(interval, 2),
            "observer_cores": round(cores, 2),
        }
