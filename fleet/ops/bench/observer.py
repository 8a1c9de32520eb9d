"""Benchmark `observer`: how long a new observer takes to know a cluster, and what it costs from then on.

Decides the load: a calm simulated fleet of the wanted size with eight pods a node on the same machine, scraped every
15 s, and then changes of nodes as fast as the API takes them. Refuses to call a pod known before the load of its node
is a row, and a change heard before its row is committed. Memory is the most that the process ever held.
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
EVENTS_EACH = 2  # the cordon, and the taint with which the API server follows it
PODS_PER_NODE, DAEMONS = 8, 4  # the latter are no work: a DaemonSet's pod goes with its node


def run(nodes: int) -> dict[str, float]:
    with site(nodes, pods_per_node=PODS_PER_NODE) as here:
        waiting = here.cpu_by_part()
        here.observe(INTERVAL)
        first_sync = here.synced(least_pods=nodes * (PODS_PER_NODE - DAEMONS))
        synced, after_sync = here.cpu_by_part(), here.memory_mib()
        round_s = here.judged()
        events = _events(here)
        time.sleep(INTERVAL)
        before, began = here.cpu_by_part(), time.monotonic()
        time.sleep(STEADY_SECONDS)
        cores = _since(before, here.cpu_by_part(), time.monotonic() - began)
        return {
            "first_sync_s": round(first_sync, 2),
            "all_judged_s": round(round_s, 2),
            "rss_mib": round(here.memory_mib(), 1),
            "rss_after_sync_mib": round(after_sync, 1),
            "watch_events_per_s": round(events * EVENTS_EACH),
            "changes_per_s": round(events),
            "steady_cores": cores["observer"],
            "background_samples_per_s": round(here.samples_each() * nodes / INTERVAL),
            "pods_on_nodes": float(here.ask("SELECT sum(pods) FROM inventory_node")),
            "pods": float(_pods(here)),
            "n": float(min(nodes, CHANGES)),
            **{f"first_sync_cpu_s_{part}": spent for part, spent in _since(waiting, synced).items()},
            **{f"steady_cores_{part}": spent for part, spent in cores.items() if part != "observer"},
        }


def _since(before: dict[str, float], now: dict[str, float], seconds: float = 1.0) -> dict[str, float]:
    return {part: round((spent - before.get(part, 0.0)) / seconds, 3) for part, spent in now.items()}


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
    connection, headers = _api(here)
    headers["Content-Type"] = "application/merge-patch+json"
    body = json.dumps({"spec": {"unschedulable": True}})
    for name in names:
        connection.request("PATCH", f"/api/v1/nodes/{name}", body, headers)
        connection.getresponse().read()
    connection.close()


def _pods(here: Site) -> int:
    """How many the API server holds."""
    connection, headers = _api(here)
    connection.request("GET", "/api/v1/pods?limit=1", headers=headers)
    listed = json.loads(connection.getresponse().read())
    connection.close()
    return len(listed["items"]) + int(listed["metadata"].get("remainingItemCount", 0))


def _api(here: Site) -> tuple[http.client.HTTPConnection, dict[str, str]]:
    config = yaml.safe_load((here.var / "simulator" / NAME / "act.kubeconfig").read_text())
    where = urlsplit(here.simulator)
    headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    return http.client.HTTPConnection(where.hostname or "", where.port), headers
