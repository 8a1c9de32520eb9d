"""Writes that hold only while we are still the ones who may write.

Decides that every write of a step says `WHERE version =`: whoever lost the lease to another worker changes nothing.
Also the one place where a node's and a workflow's state change: state, outbox and audit row in one transaction, the
audit's lock taken last. Refuses an edge that the machine does not have (and so does the database).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.lifecycle import machine
from fleet.lifecycle.machine import NodeState
from fleet.lifecycle.models import NodeLifecycle, Workflow

LEASE = timedelta(seconds=10)
"""How long one message may work before another worker takes over. Longer than a BMC session (6 s in all)."""


class Stale(Exception):
    """The workflow moved on under another version: drop what was being done."""


@dataclass(slots=True)
class Change:
    """One fenced transaction in the making."""

    workflow: dict[str, Any] = field(default_factory=dict)
    node_state: NodeState | None = None
    node_reason: str = ""
    node_fields: dict[str, Any] = field(default_factory=dict)
    entries: list[audit.Entry] = field(default_factory=list)


def write(workflow: Workflow, change: Change, now: datetime, actor: str = "muster:worker") -> None:
    """Apply `change` if `workflow.version` is current, else raise Stale. Call inside a transaction, as its end."""
    rows = Workflow.objects.filter(pk=workflow.pk, version=workflow.version).update(
        **change.workflow or {"step": workflow.step}
    )
    if rows != 1:
        raise Stale(workflow.label)
    entries = list(change.entries)
    if change.node_state is not None:
        entries += _move_node(workflow, change, change.node_state, now, actor)
    name = workflow.node.name
    publish(workflow.cluster_id, [Notice("workflow", str(workflow.pk), name), Notice("node", name, name)], now)
    audit.record(audit.chain_of(workflow.cluster_id), entries, now)


def _move_node(workflow: Workflow, change: Change, new: NodeState, now: datetime, actor: str) -> list[audit.Entry]:
    row = NodeLifecycle.objects.select_for_update().get(node_id=workflow.node_id)
    old = NodeState(row.state)
    if old == new:
        if change.node_fields:
            NodeLifecycle.objects.filter(pk=row.pk).update(**change.node_fields)
        return []
    sentence = machine.check_node_edge(old, new)
    NodeLifecycle.objects.filter(pk=row.pk).update(
        state=new, since=now, reason=(change.node_reason or sentence)[:300], by=actor, **change.node_fields
    )
    detail = {"from": old, "to": new, "reason": change.node_reason or sentence, "incident": workflow.incident_id}
    return [
        audit.Entry(
            actor=actor, action="node.state", object=f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail
        )
    ]


@transaction.atomic
def renew(workflow: Workflow, now: datetime, until: datetime | None = None) -> None:
    """Keep the lease while acting: nobody else takes the workflow before `until` (default: one lease from now)."""
    wake = until or now + LEASE
    if not Workflow.objects.filter(pk=workflow.pk, version=workflow.version).update(wake_at=wake):
        raise Stale(workflow.label)
