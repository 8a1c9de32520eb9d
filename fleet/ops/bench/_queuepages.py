"""The process that benchmark `queues` measures: the gangs of `_gangscene` in rows, and somebody who looks at them.

Decides what is looked at: the queues page as it opens, with each of its filters and at its last page, what queues may
use, the gang with the most members and a node of it, and the same by API. The whole request is timed in this process,
from the address to the last byte. Refuses what-ifs: the observer answers them. Run as `python -m`; prints one JSON
document.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from typing import Any

import django

REQUESTS, WARM = 40, 5
FILTERS = ("?state=waits", "?state=idle", "?q=job-12", "?state=running&page=2", "?page=9")


def fill(nodes: int) -> None:
    """The fleet, and its gangs as an observer writes them."""
    from django.db import transaction

    from fleet.gangs import services
    from fleet.gangs.rows import Columns
    from fleet.inventory.models import Cluster
    from fleet.ops.bench import _fleetpage
    from fleet.ops.bench._gangscene import name_of, scene
    from fleet.ports.clock import SYSTEM_CLOCK

    _fleetpage.fill(nodes, name_of)
    here = scene(nodes)
    here.feed()
    gangs, queues = Columns().of(here.judge())
    with transaction.atomic():
        services.store(services.Ledger(Cluster.objects.get().pk), gangs, queues, SYSTEM_CLOCK.now())


def measure() -> dict[str, Any]:
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    from fleet.access.services import ensure_user
    from fleet.gangs.models import GangRow
    from fleet.ops.bench._fleetpage import spread
    from fleet.ports.clock import SYSTEM_CLOCK

    user = ensure_user(name="bench", password="looks-at-it-1", role="viewer", now=SYSTEM_CLOCK.now(), by="bench")  # noqa: S106
    client, page = Client(headers={"Accept-Encoding": "gzip"}), reverse("queues")
    client.force_login(user)

    def timed(address: str) -> tuple[float, float]:
        began, cpu = time.perf_counter(), time.process_time()
        answer = client.get(address)
        assert answer.status_code == 200, (address, answer.status_code)  # noqa: S101
        return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)

    largest = GangRow.objects.order_by("-gpus_wanted", "key")[0]
    kinds = {
        "": [page],
        "filtered_": [page + one for one in FILTERS],
        "quota_": [reverse("quota")],
        "gang_": [reverse("gang", args=[largest.pk])],
        "api_": ["/api/v1/gangs", "/api/v1/gangs?state=waits", "/api/v1/queues"],
    }
    for addresses in kinds.values():
        for _ in range(WARM):
            timed(addresses[0])
    gc.collect()
    gc.freeze()  # as the web process does once it stands
    found: dict[str, Any] = {"n": REQUESTS, "gangs": GangRow.objects.count()}
    for kind, addresses in kinds.items():
        found |= spread(kind, [timed(addresses[n % len(addresses)]) for n in range(REQUESTS)])
    with CaptureQueriesContext(connection) as seen:
        body = client.get(page).content
    found |= {"queries": len(seen), "gzip_kb": round(len(body) / 1000, 1)}
    found["worst_p95_ms"] = max(value for name, value in found.items() if name.endswith("p95_ms"))
    return found


if __name__ == "__main__":
    django.setup()
    fill(int(sys.argv[1]))
    sys.stdout.write(json.dumps(measure()))
