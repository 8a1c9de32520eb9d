"""What the rules may know of nodes besides samples, read from our own rows.

Decides that one query per cycle is enough, and when a node is quiet, so that what is absent there opens nothing: while
a disruptive verb is under way, and after it or after a boot until its exporters have answered again (what the frame
holds of it is from before). Refuses to ask the cluster: the writer has done that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.db.models import F
from django.db.models.fields.json import KeyTextTransform

from fleet.health.rules.types import NodeFacts
from fleet.inventory.models import Node
from fleet.lifecycle.machine import NodeState
from fleet.telemetry.frame import STALE_INTERVALS, Frame

_COLUMNS = (
    "id", "name", "ready", "ready_since", "ready_reason", "boot_id", "boot_since", "managed", "gpu_expected",
    "lifecycle__remediated_at", "pool__name", "gpu_capacity", "gpu_allocatable", "gang",
)  # fmt: skip

CHUNK, PORTION = 500, 50  # nodes fetched at once, and looked at between two looks at who else wants to compute
# Labels of NVIDIA's operator by which a node says that what it advertises are not whole GPUs, and their plain values.
_SHARED = ("nvidia.com/mig.config", "nvidia.com/gpu.sharing-strategy", "nvidia.com/gpu.workload.config")
_WHOLE = frozenset({"all-disabled", "none", "container"})
_MACHINES = frozenset({"vm-passthrough", "vm-vgpu"})
# By this label a node says that no device plugin advertises its GPUs: claims (DRA) or nobody gives them out.
_PLUGIN = "nvidia.com/gpu.deploy.device-plugin"


class FactsReader:
    """Keeps the objects of nodes that did not change."""

    def __init__(self, frame: Frame, give_way: Callable[[], None] = lambda: None) -> None:
        """`give_way` is called once in so many nodes."""
        self._frame, self._give_way = frame, give_way
        self._rows: dict[str, tuple[Any, ...]] = {}
        self.of: dict[str, NodeFacts] = {}
        self.unheard: list[str] = []  # nodes whose exporters have yet to answer since a boot or a remediation
        self.ids: dict[str, int] = {}

    def read(self, cluster_id: int, connected_at: datetime, now: datetime) -> dict[str, NodeFacts]:
        shared = (KeyTextTransform(label, "labels") for label in (*_SHARED, _PLUGIN))
        nodes = Node.objects.filter(cluster_id=cluster_id, gone_at=None)
        rows = nodes.values_list(*_COLUMNS, *shared, F("lifecycle__state"))
        fresh: dict[str, tuple[Any, ...]] = {}
        facts: dict[str, NodeFacts] = {}
        ids: dict[str, int] = {}
        unheard: list[str] = []
        for number, row in enumerate(rows.iterator(chunk_size=CHUNK)):
            if number % PORTION == 0:
                self._give_way()
            name = row[1]
            ids[name], fresh[name] = row[0], row
            known = self.of.get(name)
            same = known is not None and self._rows.get(name) == row and known.connected_at == connected_at
            made = known if same and known is not None else _facts(row, connected_at)
            old_news = self._is_old_news(made, now)
            if old_news:
                unheard.append(name)
            quiet = row[-1] == NodeState.REMEDIATING or old_news
            facts[name] = made if made.in_remediation == quiet else replace(made, in_remediation=quiet)
        self._rows, self.of, self.ids, self.unheard = fresh, facts, ids, unheard
        return facts

    def _is_old_news(self, facts: NodeFacts, now: datetime) -> bool:
        """An exporter of the node has not answered since the boot or remediation; after three intervals it is stale."""
        since = since_when(facts)
        if since is None:
            return False
        t, begun = self._frame.t, since.timestamp()
        return any(
            t.alive[target.index]
            and t.wall[target.index] < begun
            and now.timestamp() - begun <= STALE_INTERVALS * float(t.interval[target.index])
            for target in self._frame.targets_of(facts.name)
        )


def since_when(facts: NodeFacts) -> datetime | None:
    """The end of what happened to the node last: a boot or our remediation."""
    return max((at for at in (facts.boot_at, facts.remediated_at) if at is not None), default=None)


def _facts(row: tuple[Any, ...], connected_at: datetime) -> NodeFacts:
    _, name, ready, ready_since, reason, boot_id, boot_since, managed, gpus, remediated_at = row[:10]
    pool, capacity, allocatable, gang, *shared, plugin, state = row[10:]
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
        pool=pool or "",
        workload=gang,
        gpu_capacity=capacity,
        gpu_allocatable=allocatable,
        gpus_advertised=plugin in (None, "", "true"),
        gpus_elsewhere=shared[-1] in _MACHINES,
        gpus_divided=any(value not in (None, "", *_WHOLE) for value in shared),
    )
