"""Slinky's slurmd pods: what Slurm says of the node that each of them is.

Decides the states from the pod's conditions, which the operator copies from Slurm, and when such a node is drained:
told to drain and nothing left on it. Refuses to call it drained by the drain alone: its jobs still run then.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.ports.shapes import items, mapping, text

STATE = "SlurmNodeState"
BUSY = frozenset({"Allocated", "Mixed", "Completing"})


def states_of(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Such as ("Drain", "Idle"), sorted; () for a pod that is no node of Slurm or was not told of yet."""
    conditions = items(mapping(raw.get("status")).get("conditions"))
    true = (text(one.get("type")) for one in conditions if one.get("status") == "True")
    return tuple(sorted({kind.removeprefix(STATE) for kind in true if kind.startswith(STATE)}))
