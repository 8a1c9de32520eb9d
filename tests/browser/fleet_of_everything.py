"""A fleet with one of everything that a page can show, as rows: only the web server must run to look at it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from fleet.health.models import NodeVerdict
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.models import NodeLifecycle, Step, Workflow
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.tickets.models import Ticket
from tests.builders import T0, a_cluster, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import a_signal, a_story, audit_row, history

VERDICTS = {3: "degraded", 5: "unknown", 6: "unknown", 7: "lost", 8: "unhealthy"}


@dataclass(frozen=True)
class Everything:
    blocked: Workflow
    running: Workflow
    repair: Workflow
    ended: Workflow
    planned: Workflow
    waiting: Workflow


def everything() -> Everything:
    """Two racks in a cluster that is watched, a workflow in every state, a ticket open and one closed."""
    cluster = a_cluster(observer="test", observer_until=SYSTEM_CLOCK.now() + timedelta(hours=1))
    blocked = a_story(cluster)
    nodes = [
        a_node(cluster, f"gpu-{rack}-{number:02}", rack=rack, verdict=VERDICTS.get(number, "healthy"))
        for rack in ("r01", "r02")
        for number in range(2, 17)
    ]
    history(nodes[0])
    found = Everything(
        blocked,
        _workflow(nodes[1], WorkflowState.RUNNING, 2),
        _workflow(nodes[2], WorkflowState.REPAIR, 2),
        _workflow(nodes[4], WorkflowState.SUCCEEDED, 6, ended_at=T0 + timedelta(minutes=1), outcome="Returned."),
        _workflow(nodes[6], WorkflowState.PLANNED, 0),
        _workflow(nodes[8], WorkflowState.WAITING, 0, created_by="somebody"),
    )
    _sick(nodes)
    _tickets(cluster, found)
    for number in range(60):
        audit_row(cluster, "muster:worker", "step.done", f"workflow:{blocked.pk}", nodes[0].name, text=f"Try {number}.")
    return found


def _workflow(node: Node, state: WorkflowState, step: int, **fields: object) -> Workflow:
    incident = an_incident(node)
    a_signal(node, incident)
    workflow = a_workflow(node, incident, state=state, step=step, **fields)
    begun = step if state in (WorkflowState.PLANNED, WorkflowState.WAITING) else step + 1
    for index, verb in enumerate(("hold", "drain", "reboot", "validate", "soak", "return")[:begun]):
        done = index < step or state == WorkflowState.SUCCEEDED
        Step.objects.create(
            workflow=workflow, index=index, attempt=1, verb=verb, state="done" if done else "running",
            started_at=T0 + timedelta(seconds=5 * index),
            ended_at=T0 + timedelta(seconds=5 * index + 5) if done else None, text=f"What {verb} said.",
        )  # fmt: skip
    return workflow


def _sick(nodes: list[Node]) -> None:
    for node in nodes:
        NodeVerdict.objects.filter(node=node).exclude(verdict="healthy").update(
            reason="GPU 3 fell off the bus (Xid 79)."
        )
    for state in (NodeState.HELD, NodeState.DRAINING):
        NodeLifecycle.objects.filter(node=nodes[1]).update(state=state, since=T0, by="muster:worker")
    Node.objects.filter(pk=nodes[1].pk).update(unschedulable=True, hold_value="2/op")
    Node.objects.filter(pk=nodes[3].pk).update(unschedulable=True, foreign_hold=True)


def _tickets(cluster: Cluster, found: Everything) -> None:
    about = {"cluster": cluster, "node": found.repair.node, "title": "GPU 3 is slowed down by heat", "opened_at": T0}
    evidence = {"line": "NVRM: Xid (PCI:0000:1b:00): 79", "steps": [{"verb": "hold", "state": "done"}]}
    Ticket.objects.create(**about, incident=found.repair.incident, workflow_id=found.repair.pk, evidence=evidence)
    closed = {"state": Ticket.CLOSED, "closed_at": T0 + timedelta(hours=2), "closed_by": "jiwoo"}
    Ticket.objects.create(**about, **closed, part="GPU-bbbb", serial="1652", resolution="New fan.\nOld serial 1.")
