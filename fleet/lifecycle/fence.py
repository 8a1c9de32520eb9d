"""Writes that hold only while we are still the ones who may write.

Decides that every write of a step says `WHERE version =`: whoever lost the lease to another worker changes nothing.
Also the one place where a node's and a workflow's state change: state, outbox and audit row in one transaction, the
audit's lock taken last. Refuses an edge that the machine does not have (and so does the database).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
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
        reason = [(workflow, change.node_reason)]
        entries += move_nodes(reason, change.node_state, now, actor, change.node_fields)
    tell([workflow], entries, now)


def tell(workflows: Sequence[Workflow], entries: Sequence[audit.Entry], now: datetime) -> None:
    """The outbox and the audit of what was written, as the end of the transaction."""
    if not workflows:
        return
    named = [(str(w.pk), w.node.name) for w in workflows]
    told = [notice for pk, name in named for notice in (Notice("workflow", pk, name), Notice("node", name, name))]
    publish(workflows[0].cluster_id, told, now)
    audit.record(audit.chain_of(workflows[0].cluster_id), entries, now)


def lock_current(workflows: Iterable[Workflow]) -> set[int]:
    """Lock their rows, in the order of their ids; the ids of those whose version is current."""
    versions = {workflow.pk: workflow.version for workflow in workflows}
    rows = Workflow.objects.select_for_update().filter(pk__in=versions).order_by("pk")
    return {pk for pk, version in rows.values_list("pk", "version") if versions[pk] == version}


def move_nodes(
    moves: Sequence[tuple[Workflow, str]],
    new: NodeState,
    now: datetime,
    actor: str = "muster:worker",
    fields: Mapping[str, Any] | None = None,
) -> list[audit.Entry]:
    """Bring the nodes of workflows to `new`, each with its reason ("" for the edge's sentence). Raises IllegalEdge."""
    mine = {workflow.node_id: (workflow, reason) for workflow, reason in moves}
    rows = NodeLifecycle.objects.select_for_update().filter(node_id__in=mine).order_by("pk")
    alike: dict[str, list[int]] = defaultdict(list)
    entries, there = [], []
    for row in rows:
        workflow, reason = mine[row.node_id]
        old = NodeState(row.state)
        if old == new:
            there.append(row.pk)
            continue
        sentence = machine.check_node_edge(old, new)
        reason = reason or sentence
        alike[reason[:300]].append(row.pk)
        detail = {"from": old, "to": new, "reason": reason, "incident": workflow.incident_id}
        entries.append(
            audit.Entry(actor, "node.state", f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail)
        )
    if there and fields:
        NodeLifecycle.objects.filter(pk__in=there).update(**fields)
    for reason, pks in alike.items():
        moved = {"state": new, "since": now, "reason": reason, "by": actor, **(fields or {})}
        NodeLifecycle.objects.filter(pk__in=pks).update(**moved)
    return entries


@transaction.atomic
def renew_all(workflows: Sequence[Workflow], now: datetime) -> set[int]:
    """As `renew`, of many at once; the ids of those that are still ours."""
    current = lock_current(workflows)
    Workflow.objects.filter(pk__in=current).update(wake_at=now + LEASE)
    return current


def renew(workflow: Workflow, now: datetime, until: datetime | None = None) -> None:
    """Keep the lease while acting: nobody else takes the workflow before `until` (default: one lease from now).

    One statement, which needs no transaction of its own: a drain renews between any two rounds of evictions.
    """
    wake = until or now + LEASE
    if not Workflow.objects.filter(pk=workflow.pk, version=workflow.version).update(wake_at=wake):
        raise Stale(workflow.label)
