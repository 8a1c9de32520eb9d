"""The rows of the nodes that a batch of edges concerns, as they become.

Decides nothing: it is what the writers of signals, of a node's own incidents and of shared ones hand to each other
within one transaction. Refuses to write.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from fleet.audit import services as audit
from fleet.health.models import Incident, Signal
from fleet.health.rules.types import Edge
from fleet.inventory.models import Node

ACTOR = "muster:observer"
BATCH = 1000
Key = tuple[int, str, str, str]


@dataclass(slots=True)
class Work:
    cluster_id: int
    now: datetime
    nodes: dict[int, Node]
    signals: dict[Key, Signal]
    incidents: dict[int, list[Incident]]
    shared: dict[int, Incident] = field(default_factory=dict)  # open ones of the cluster
    new_signals: list[Signal] = field(default_factory=list)
    touched: dict[int, Signal] = field(default_factory=dict)
    opened: list[Incident] = field(default_factory=list)
    worsened: dict[int, Incident] = field(default_factory=dict)
    undecided: list[tuple[int, Signal, Edge]] = field(default_factory=list)  # signs of no incident that is known
    members: list[tuple[Incident, int]] = field(default_factory=list)
    parts: list[tuple[Incident, Incident]] = field(default_factory=list)  # a node's own, and the shared one it joins
    history: dict[Key, list[datetime]] | None = None
    entries: list[audit.Entry] = field(default_factory=list)

    def name(self, node_id: int | None) -> str:
        node = self.nodes.get(node_id or 0)
        return node.name if node is not None else ""

    @property
    def folded(self) -> list[int]:
        return [own.pk for own, _ in self.parts]

    def touch(self, signal: Signal) -> None:
        if signal.pk is not None:
            self.touched[signal.pk] = signal
