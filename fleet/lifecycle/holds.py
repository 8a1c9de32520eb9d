"""Our holds as the clusters tell them, beside what we know of them.

Decides how a hold is released by hand: through its workflow where one works on the node, else by taking our own mark
away. Refuses to touch a cordon without our mark, and to uncordon what somebody else holds as well, by the row or by the
node itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.inventory.models import Cluster, Node
from fleet.inventory.owners import on_node
from fleet.lifecycle import owners
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState
from fleet.lifecycle.models import NodeLifecycle, Workflow
from fleet.ports.cluster import HOLD_ANNOTATION, ClusterActor, ClusterReader, NodeSeen


@dataclass(frozen=True, slots=True)
class FoundHold:
    node: str
    value: str
    seen: NodeSeen
    workflow: Workflow | None
    text: str


def found(cluster: Cluster, reader: ClusterReader) -> list[FoundHold]:
    """Every node that carries our mark, from the API server."""
    rows = {
        w.node.name: w
        for w in Workflow.objects.filter(cluster=cluster, state__in=OPEN_WORKFLOW_STATES).select_related("node")
    }
    out = []
    for node in reader.nodes():
        value = node.annotations.get(HOLD_ANNOTATION, "")
        if value:
            workflow = rows.get(node.name)
            text = f"{workflow.label} {workflow.verb}" if workflow else "no workflow: left over"
            out.append(FoundHold(node.name, value, node, workflow, text))
    return sorted(out, key=lambda hold: hold.node)


def release(
    cluster: Cluster, hold: FoundHold, actor: Callable[[], ClusterActor], by: str, reason: str, now: datetime
) -> str:
    """Release one hold; returns what was done. Raises Refused or a PortError."""
    from fleet.lifecycle import services

    if hold.workflow is not None and cluster.mode != "observe":
        services.abort(hold.workflow.pk, by, reason, now)
        return f"{hold.workflow.label} aborted; its last step releases the node."
    if hold.workflow is not None:
        services.abort(hold.workflow.pk, by, reason, now)
    foreign = Node.objects.filter(cluster=cluster, name=hold.node, foreign_hold=True).exists()
    foreign = foreign or bool(owners.keepers(on_node(hold.seen)))
    actor().release(hold.node, hold.value, hold.seen.resource_version, uncordon=not foreign)
    with transaction.atomic():
        NodeLifecycle.objects.filter(node__cluster=cluster, node__name=hold.node).exclude(
            state__in=[NodeState.IN_SERVICE, NodeState.RELEASED, NodeState.UNMANAGED, NodeState.RETIRED]
        ).update(state=NodeState.RELEASED, since=now, by=by, reason=reason[:300])
        entry = audit.Entry(
            actor=by, action="hold.release", object=f"hold:{hold.value}", node=hold.node, detail={"reason": reason}
        )
        audit.record(audit.chain_of(cluster.pk), [entry], now)
    return "released; the cordon of another owner stays." if foreign else "released and uncordoned."
