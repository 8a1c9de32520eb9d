"""A background load for benchmarks: the exporters of a simulated fleet, answered by a cheap process.

Decides that the pods of the exporters say another port before the observer first lists them. Refuses to guess the load:
it is what was answered, by the count of who answered.
"""

from __future__ import annotations

import http.client
import json
import sys
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import yaml

from fleet.ops.bench._exporters import COUNTED
from fleet.ops.bench._site import NAME, Site, wait

PORT = 21570
SCRAPE = "prometheus.io/"


def divert(here: Site) -> int:
    """Serve every exporter of the fleet from a process of its own; samples of one round. Before the observer starts."""
    config = yaml.safe_load((here.var / "simulator" / NAME / "act.kubeconfig").read_text())
    headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
    where = urlsplit(here.simulator)
    link = http.client.HTTPConnection(where.hostname or "", where.port)
    paths: list[str] = []
    for pod in _call(link, "GET", "/api/v1/pods", headers)["items"]:
        notes = pod["metadata"].get("annotations") or {}
        if SCRAPE + "path" in notes:
            paths.append(notes[SCRAPE + "path"])
            patch = {"metadata": {"annotations": {SCRAPE + "port": str(PORT)}}}
            place = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            _call(link, "PATCH", place, {**headers, "Content-Type": "application/merge-patch+json"}, patch)
    link.close()
    listed = here.var / "exporters.txt"
    listed.write_text("\n".join(paths))
    here.start([sys.executable, "-m", "fleet.ops.bench._exporters", str(PORT), here.simulator, str(listed)])
    wait(lambda: _counts() is not None, 300, "the exporters did not start")
    return (_counts() or (0, 0))[1]


def answered() -> int:
    """Samples answered since its start."""
    return (_counts() or (0, 0))[0]


def _counts() -> tuple[int, int] | None:
    """Samples answered, and samples of one round; None where nobody answers yet."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{COUNTED}", timeout=10) as answer:
            done, held = answer.read().split()
    except OSError:
        return None
    return int(done), int(held)


def _call(link: http.client.HTTPConnection, verb: str, path: str, headers: dict[str, str], body: Any = None) -> Any:
    link.request(verb, path, json.dumps(body) if body else None, headers)
    answer = link.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise OSError(f"{verb} {path} was answered {answer.status}: {text[:200]!r}")
    return json.loads(text)
