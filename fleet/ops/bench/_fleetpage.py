"""The process that benchmark `overview` measures: a fleet in the database and somebody who looks at its page.

Decides the fleet: racks of 32 nodes, one node in fifty not healthy, one in a hundred held with a workflow. The whole
request is timed in this process, from the address to the last byte: with the fleet at rest, and with a node that falls
ill before each look. Run as `python -m`; prints one JSON document.
"""

from __future__ import annotations

import gc
import json
import statistics
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django

REQUESTS = 40
WARM = 5
FILTERS = ("?verdict=unhealthy", "?rack=r003", "?q=-07", "?state=held", "?view=table")


def _in_its_rack(n: int) -> str:
    return f"gpu-r{n // 32:03d}-{n % 32:02d}"


def fill(nodes: int, name: Callable[[int], str] = _in_its_rack) -> None:
    """The cluster and its nodes, with a verdict, a state and here and there a workflow."""
    from fleet.health.models import Incident, NodeVerdict
    from fleet.inventory.models import Cluster, Mode, Node, Pool
    from fleet.lifecycle.models import NodeLifecycle, Workflow
    from fleet.ports.clock import SYSTEM_CLOCK

    now = SYSTEM_CLOCK.now()
    until = now + timedelta(hours=1)
    cluster = Cluster.objects.create(
        name="bench", mode=Mode.AUTOMATE, mode_since=now, created_at=now, connected_at=now, observer="bench",
        observer_until=until,
    )  # fmt: skip
    pool = Pool.objects.create(cluster=cluster, name="train")
    rows = Node.objects.bulk_create(
        Node(
            cluster=cluster, pool=pool, name=name(n), uid=f"uid-{n}", managed=True,
            ready=True, rack=f"r{n // 32:03d}", leaf=f"leaf-{n // 64:03d}", gpu_capacity=8, first_seen_at=now,
            heartbeat_at=now, seen_at=now, boot_id=f"boot-{n}",
        )
        for n in range(nodes)
    )  # fmt: skip
    held = [node for n, node in enumerate(rows) if n % 100 == 7]
    states = {node.pk: "draining" for node in held}
    NodeVerdict.objects.bulk_create(
        NodeVerdict(node=node, cluster_id=cluster.pk, verdict="unhealthy" if n % 50 == 7 else "healthy",
                    reason="GPU 3 is gone from the bus." if n % 50 == 7 else "", since=now, telemetry_at=now)
        for n, node in enumerate(rows)
    )  # fmt: skip
    NodeLifecycle.objects.bulk_create(
        NodeLifecycle(node=node, cluster_id=cluster.pk, state=states.get(node.pk, "in_service"), since=now)
        for node in rows
    )
    incidents = Incident.objects.bulk_create(_incident(Incident, node, cluster.pk, now) for node in held)
    Workflow.objects.bulk_create(
        Workflow(cluster_id=cluster.pk, node=node, incident=incident, state="running", step=1, created_at=now,
                 wake_at=until, plan=[{"verb": "hold"}, {"verb": "drain"}, {"verb": "reboot"}])
        for node, incident in zip(held, incidents, strict=True)
    )  # fmt: skip


def _incident(model: Any, node: Any, cluster_id: int, now: Any) -> Any:
    return model(
        cluster_id=cluster_id, node=node, scope="node", device="GPU-3", rule="gpu-lost", cause="gpu-lost",
        severity="unhealthy", title="GPU 3 is gone from the bus", first_bad_at=now, detected_at=now,
    )  # fmt: skip


def measure() -> dict[str, float]:
    """The page of a fleet at rest, with filters, and of one that changes before every look."""
    from django.db import connection
    from django.test import Client
    from django.test.utils import CaptureQueriesContext
    from django.urls import reverse

    from fleet.access.services import ensure_user
    from fleet.ports.clock import SYSTEM_CLOCK

    fleet = Fleet(int(sys.argv[1]))
    user = ensure_user(name="bench", password="looks-at-it-1", role="viewer", now=SYSTEM_CLOCK.now(), by="bench")  # noqa: S106
    client, page = Client(headers={"Accept-Encoding": "gzip"}), reverse("fleet")
    client.force_login(user)

    def timed(address: str = page) -> tuple[float, float]:
        began, cpu = time.perf_counter(), time.process_time()
        answer = client.get(address)
        assert answer.status_code == 200  # noqa: S101
        return 1000 * (time.perf_counter() - began), 1000 * (time.process_time() - cpu)

    fleet.told()
    for _ in range(WARM):
        timed()
    gc.collect()
    gc.freeze()  # as the web process does once it stands
    plain = [(fleet.told(), timed())[1] for _ in range(REQUESTS)]
    filtered = [(fleet.told(), timed(page + FILTERS[n % len(FILTERS)]))[1] for n in range(REQUESTS)]
    publishing, changed = [], []
    for n in range(REQUESTS):
        fleet.change(n)
        publishing.append(fleet.told())
        changed.append(timed(page + ("", *FILTERS)[n % (len(FILTERS) + 1)]))
    with CaptureQueriesContext(connection) as seen:
        body = client.get(page).content
    return {
        "n": REQUESTS,
        **spread("", plain),
        **spread("filtered_", filtered),
        **spread("changed_", changed),
        "publish_p50_ms": round(statistics.median(publishing), 1),
        "publish_still_ms": round(statistics.median(fleet.told() for _ in range(WARM)), 1),
        "queries": len(seen),
        "gzip_kb": round(len(body) / 1000, 1),
    }


def spread(kind: str, taken: list[tuple[float, float]]) -> dict[str, float]:
    took, used = sorted(seconds for seconds, _cpu in taken), [cpu for _seconds, cpu in taken]
    return {
        f"{kind}p50_ms": round(statistics.median(took), 1),
        f"{kind}p95_ms": round(took[int(0.95 * len(took))], 1),
        f"{kind}cpu_p50_ms": round(statistics.median(used), 1),
    }


class Fleet:
    """The fleet as its observer tells it to the pages."""

    def __init__(self, nodes: int) -> None:
        from fleet.inventory.models import Cluster, Node
        from fleet.readmodels.fleet_blob import Publisher

        self._cluster = Cluster.objects.get().pk
        self._publisher, self._nodes = Publisher(self._cluster, "bench"), nodes
        self._names = list(Node.objects.order_by("name").values_list("pk", "name"))

    def told(self) -> float:
        """One turn of the publisher; the milliseconds that it took."""
        began = time.perf_counter()
        self._publisher.turn(self._nodes)
        return 1000 * (time.perf_counter() - began)

    def change(self, n: int) -> None:
        """Another node falls ill, and whoever listens hears of it."""
        from fleet.bus import outbox
        from fleet.health.models import NodeVerdict

        pk, name = self._names[(n * 97) % len(self._names)]
        NodeVerdict.objects.filter(node_id=pk).update(verdict="degraded", reason=f"GPU {n % 8} is hot.")
        told = [{"topic": "node", "ref": str(pk), "node": name, "cluster": self._cluster}]
        outbox.hint(json.dumps(told).encode())


if __name__ == "__main__":
    django.setup()
    fill(int(sys.argv[1]))
    sys.stdout.write(json.dumps(measure()))
