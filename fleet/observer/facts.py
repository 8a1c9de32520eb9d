"""What the rules may know of nodes besides samples, read from our own rows.

Decides that one query per cycle is enough, and that a node on which a disruptive verb is under way is quiet: what is
absent there opens nothing. Refuses to ask the cluster: the writer has done that.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.health.rules.types import NodeFacts
from fleet.inventory.models import Node
from fleet.lifecycle.machine import NodeState

_COLUMNS = (
    "id", "name", "ready", "ready_since", "ready_reason", "boot_id", "boot_since", "managed", "gpu_expected",
    "lifecycle__remediated_at", "lifecycle__state",
)  # fmt: skip


class FactsReader:
    """Keeps the objects of nodes that did not change."""

    def __init__(self) -> None:
        self._rows: dict[str, tuple[Any, ...]] = {}
        self.of: dict[str, NodeFacts] = {}
        self.ids: dict[str, int] = {}

    def read(self, cluster_id: int, connected_at: datetime) -> dict[str, NodeFacts]:
        rows = Node.objects.filter(cluster_id=cluster_id, gone_at=None).values_list(*_COLUMNS)
        fresh: dict[str, tuple[Any, ...]] = {}
        facts: dict[str, NodeFacts] = {}
        ids: dict[str, int] = {}
        for row in rows.iterator(chunk_size=5000):
            name = row[1]
            ids[name], fresh[name] = row[0], row
            known = self.of.get(name)
            same = known is not None and self._rows.get(name) == row and known.connected_at == connected_at
            facts[name] = known if same and known is not None else _facts(row, connected_at)
        self._rows, self.of, self.ids = fresh, facts, ids
        return facts


def _facts(row: tuple[Any, ...], connected_at: datetime) -> NodeFacts:
    _, name, ready, ready_since, reason, boot_id, boot_since, managed, gpus, remediated_at, state = row
    return NodeFacts(
        name=name,
        ready=ready,
        connected_at=connected_at,
        ready_since=ready_since,
        ready_reason=reason,
        boot_id=boot_id,
        boot_at=boot_since,
        remediated_at=remediated_at,
        managed=managed,
        gpu_expected=gpus,
        in_remediation=state == NodeState.REMEDIATING,
    )
