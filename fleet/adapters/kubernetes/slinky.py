"""Slinky's slurmd pods: what Slurm says of the node that each of them is.

Decides the states from the pod's conditions, which the operator copies from Slurm, and how a hold of ours goes on to
Slurm: by the reason that the operator reads from the Kubernetes node. Refuses to write the operator's own prefix, and
to replace a reason that somebody else wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fleet.ports.cluster import SLINKY_OURS, SLINKY_REASON
from fleet.ports.shapes import items, mapping, text

STATE = "SlurmNodeState"


def states_of(raw: Mapping[str, Any]) -> tuple[str, ...]:
    """Such as ("Drain", "Idle"), sorted; () for a pod that is no node of Slurm or was not told of yet.

    A drain that is being lifted is none any more.
    """
    conditions = items(mapping(raw.get("status")).get("conditions"))
    true = (text(one.get("type")) for one in conditions if one.get("status") == "True")
    found = {kind.removeprefix(STATE) for kind in true if kind.startswith(STATE)}
    return tuple(sorted(found - {"Drain"} if "Undrain" in found else found))


def reason_of(annotations: Mapping[str, str], value: str, why: str) -> dict[str, str]:
    """The annotation that goes with a hold: the operator drains in Slurm what is cordoned, and says this there."""
    there = annotations.get(SLINKY_REASON, "")
    if there and not there.startswith(SLINKY_OURS):
        return {}
    return {SLINKY_REASON: f"{SLINKY_OURS}{value}: {why}"[:300]}


def reason_gone(annotations: Mapping[str, str]) -> dict[str, None]:
    """What is taken away with a hold: the reason that was ours."""
    return {SLINKY_REASON: None} if annotations.get(SLINKY_REASON, "").startswith(SLINKY_OURS) else {}
