"""The processes that benchmark `engine` measures: one that advances steps, one that fills a queue of waiting workflows.

Decides ports that answer at once, so that what is timed is the engine, its database and its broker. Run as
`python -m`; prints one JSON document.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from datetime import timedelta
from typing import Any

import django

STEPS = 200


def _world() -> Any:
    from fleet.inventory.models import Node
    from fleet.lifecycle.context import Ports
    from fleet.ports.clock import SYSTEM_CLOCK
    from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest, NodeSeen

    class Instant:
        """A cluster without pods that does what it is told."""

        def __init__(self) -> None:
            now = SYSTEM_CLOCK.now()
            self.nodes = {
                node.name: NodeSeen(
                    node.name, node.uid, "1", False, True, "", None, now, node.boot_id, "", "", "", "", "", "", (), {},
                    {}, (), {}, 8, 8, None,
                )
                for node in Node.objects.all()
            }  # fmt: skip

        def node(self, name: str) -> NodeSeen:
            return self.nodes[name]

        def pods_on(self, _node: str) -> list[Any]:
            return []

        def hold(self, request: HoldRequest) -> NodeSeen:
            marks = {HOLD_ANNOTATION: request.value}
            seen = dataclasses.replace(self.nodes[request.node], unschedulable=True, annotations=marks)
            self.nodes[request.node] = seen
            return seen

    world: Any = Instant()
    return Ports(reader=world, actor=world, power=world, target=lambda row: row, lease=lambda: True)  # type: ignore[arg-type, return-value]


def _workflows(count: int, code: str, text: str) -> Any:
    """So many nodes that are in service get an incident and a workflow that waits."""
    from fleet.health.models import Incident
    from fleet.inventory.models import Cluster, Node
    from fleet.lifecycle.models import Workflow
    from fleet.ops.bench._fleetpage import _incident
    from fleet.ports.clock import SYSTEM_CLOCK

    cluster, now = Cluster.objects.get(), SYSTEM_CLOCK.now()
    nodes = list(Node.objects.filter(lifecycle__state="in_service", workflows=None).order_by("pk")[:count])
    incidents = Incident.objects.bulk_create(_incident(Incident, node, cluster.pk, now) for node in nodes)
    plan = [{"verb": verb} for verb in ("hold", "drain", "keep")]
    return Workflow.objects.bulk_create(
        Workflow(
            cluster=cluster, node=node, incident=incident, playbook="reboot", plan=plan, state="blocked",
            blocked_code=code, blocked_text=text, blocked_since=now, blocked_until=now + timedelta(minutes=5),
            created_at=now, node_uid=node.uid,
        )
        for node, incident in zip(nodes, incidents, strict=True)
    )  # fmt: skip


def steps() -> dict[str, float]:
    """Hold and drain of idle nodes, each message timed from its receipt to its last commit."""
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from fleet.lifecycle import engine, grants
    from fleet.lifecycle.context import Timing
    from fleet.lifecycle.models import Workflow
    from fleet.policy.models import BreakerRule, Cap
    from fleet.ports.clock import SYSTEM_CLOCK

    Cap.objects.all().delete()
    BreakerRule.objects.update(enabled=False)
    made, ports = _workflows(STEPS, grants.ASKING, "Asks."), _world()
    granting = time.perf_counter()
    grants.run(made[0].cluster_id, SYSTEM_CLOCK)
    granted_ms = (time.perf_counter() - granting) * 1000
    spent: list[float] = []
    queries = 0
    for workflow in made:
        version = Workflow.objects.values_list("version", flat=True).get(pk=workflow.pk)
        with CaptureQueriesContext(connection) as seen:
            began = time.perf_counter()
            engine.advance(workflow.pk, version, lambda _: ports, SYSTEM_CLOCK, Timing())
            spent.append((time.perf_counter() - began) * 1000)
        queries = max(queries, len(seen))
    spent.sort()
    return {
        "step_ms": round(sum(spent) / len(spent), 2),
        "step_p99_ms": round(spent[int(len(spent) * 0.99)], 2),
        "step_queries": float(queries),
        "grant200_ms": round(granted_ms, 1),
        "n": float(len(spent)),
    }


def waiting(count: int) -> dict[str, float]:
    """So many workflows wait for a cap that has no room."""
    from fleet.policy.models import BreakerRule, Cap

    Cap.objects.all().delete()
    Cap.objects.create(kind="hold", scope="fleet", absolute=1)
    BreakerRule.objects.update(enabled=False)
    return {"waiting": float(len(_workflows(count, "cap_hold", "Fleet: 1 of 1 held.")))}


def main() -> None:
    django.setup()
    from fleet.inventory.models import Cluster
    from fleet.ops.bench._fleetpage import fill

    what, number = sys.argv[1], int(sys.argv[2])
    if what == "fill":
        fill(number)
        Cluster.objects.update(half_open=False)
        found: dict[str, float] = {}
    else:
        found = steps() if what == "steps" else waiting(number)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
