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

        def requests_on(self, _node: str) -> list[Any]:
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
    """Holds as they are granted, many to a message, then the drains of idle nodes, one to a message.

    Each message is timed from its receipt to its last commit; of the CPU only this process's share is counted.
    """
    from fleet.lifecycle import engine, grants, messages
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
    timing = Timing(holds_at_once=8)
    pairs = list(Workflow.objects.filter(pk__in=[w.pk for w in made]).order_by("pk").values_list("pk", "version"))
    held = Stopwatch()
    for start in range(0, len(pairs), messages.TOGETHER):
        with held:
            engine.hold(pairs[start : start + messages.TOGETHER], lambda _: ports, SYSTEM_CLOCK, timing)
    grants.run(made[0].cluster_id, SYSTEM_CLOCK)
    stepped = Stopwatch()
    for workflow in made:
        version = Workflow.objects.values_list("version", flat=True).get(pk=workflow.pk)
        with stepped:
            engine.advance(workflow.pk, version, lambda _: ports, SYSTEM_CLOCK, timing)
    spent = sorted(stepped.spent)
    return {
        "hold_ms": round(sum(held.spent) / len(pairs), 2),
        "hold_cpu_ms": round(sum(held.used) / len(pairs), 2),
        "hold_message_p99_ms": round(sorted(held.spent)[-1], 1),
        "hold_message_queries": float(max(held.queries)),
        "step_ms": round(sum(spent) / len(spent), 2),
        "step_cpu_ms": round(sum(stepped.used) / len(spent), 2),
        "step_p99_ms": round(spent[int(len(spent) * 0.99)], 2),
        "step_queries": float(max(stepped.queries)),
        "grant200_ms": round(granted_ms, 1),
        "n": float(len(spent)),
    }


class Stopwatch:
    """Milliseconds, milliseconds of CPU and statements of each turn."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self.used: list[float] = []
        self.queries: list[int] = []

    def __enter__(self) -> None:
        self._count, self._began, self._cpu = 0, time.perf_counter(), time.process_time()
        from django.db import connection

        self._counting = connection.execute_wrapper(self._statement)
        self._counting.__enter__()

    def __exit__(self, *error: object) -> None:
        self._counting.__exit__(None, None, None)
        self.spent.append((time.perf_counter() - self._began) * 1000)
        self.used.append((time.process_time() - self._cpu) * 1000)
        self.queries.append(self._count)

    def _statement(self, execute: Any, *what: Any) -> Any:
        self._count += 1
        return execute(*what)


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
