"""The newest evidence of a suspicion: what a part did beside its peers.

Decides which signal tells it: the open one, else the newest; and what is stated of the node's gang. Refuses any other
rule's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fleet.health.models import Incident, Signal
from fleet.inventory.models import Node

GREY = "grey-suspect"


@dataclass(frozen=True, slots=True)
class Suspected:
    """`part` is what people call it: `GPU 3`, `mlx5_2/1`."""

    incident: Incident
    part: str
    evidence: dict[str, Any]

    @property
    def gang(self) -> str:
        return str(self.evidence.get("gang", ""))

    @property
    def role(self) -> str:
        return str(self.evidence.get("role", ""))

    @property
    def peers(self) -> int:
        found = self.evidence.get("peers")
        return found if isinstance(found, int) else 0

    @property
    def wide(self) -> bool:
        return bool(self.evidence.get("confidence"))


def read(incident: Incident | None) -> Suspected | None:
    """One query, and none for an incident of another cause."""
    if incident is None or incident.cause != GREY:
        return None
    signal = Signal.objects.filter(incident=incident, cause=GREY).order_by("-cleared_at", "-pk").first()
    evidence = signal.evidence if signal is not None else incident.evidence
    said = incident.evidence.get("said")
    args = said.get("args") if isinstance(said, dict) else None
    part = str(args.get("part", "")) if isinstance(args, dict) else ""
    return Suspected(incident, f"GPU {part}" if part.isdigit() else part or incident.device, evidence)


def gang_advice(node: Node) -> list[str]:
    """What the observer states of the node's gang: it slowed down, it waits for its data. No query."""
    codes = {f"{code}:{node.gang}" for code in ("job_slow", "data_loading")} if node.gang else set()
    return [str(stated["text"]) for stated in node.cluster.conditions or [] if stated.get("code") in codes]
