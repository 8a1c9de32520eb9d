"""Benchmark `observer`: how long a new observer takes to know a cluster, and what it costs from then on.

Decides the load: a calm simulated fleet of the wanted size on the same machine, scraped every 15 s, and then as many
changes of nodes as fast as the API takes them. Refuses to call a change heard before its row is committed.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from urllib.parse import urlsplit

import yaml

from fleet.ops.bench._site import NAME, Site, site

NODES = 256
INTERVAL = 15.0
STEADY_SECONDS = 30.0
CHANGES = 3000
CLIENTS = 2


def run(nodes: int) -> dict[str, float]:
    with site(nodes) as here:
        here.observe(INTERVAL)
        first_sync = here.synced()
        peak = here.memory_mib()
        events = _events(here)
        round_s = here.judged()
        time.sleep(INTERVAL)
        before, began = here.cpu_seconds(), time.monotonic()
        time.sleep(STEADY_SECONDS)
        cores = (here.cpu_seconds() - before) / (time.monotonic() - began)
        return {
            "first_sync_s": round(first_sync, 2),
            "all_judged_s": round(round_s, 2),
            "rss_mib": round(here.memory_mib(), 1),
            "rss_after_sync_mib": round(peak, 1),
            "watch_events_per_s": round(events),
            "steady_cores": round(cores, 3),
            "background_samples_per_s": round(here.samples_each() * nodes / INTERVAL),
            "pods_on_nodes": float(here.ask("SELECT sum(pods) FROM inventory_node")),
        }


def _events(here: Site) -> float:
    """Nodes cordoned one by one by somebody else, until the last of it is a row."""
    names = here.node_names()[:CHANGES]
    began = time.monotonic()
    threads = [threading.Thread(target=_cordon, args=(here, names[k::CLIENTS])) for k in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done = here.until("SELECT count(*) FROM inventory_node WHERE unschedulable", len(names), 120)
    return len(names) / (done - began)


def _cordon(here: Site, names: list[str]) -> None:
    config = yaml.safe_load((here.var / "simulator" / NAME / "act.kubeconfig").read_text())
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/merge-patch+json"}
    where = urlsplit(here.simulator)
    connection = http.client.HTTPConnection(where.hostname or "", where.port)
    body = json.dumps({"spec": {"unschedulable": True}})
    for name in names:
        connection.request("PATCH", f"/api/v1/nodes/{name}", body, headers)
        connection.getresponse().read()
    connection.close()
