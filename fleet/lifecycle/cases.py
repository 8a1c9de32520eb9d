"""An incident on a node as the case that playbooks match.

Decides nothing: it gathers what a match may ask for.
"""

from __future__ import annotations

from typing import Any

from fleet.health.models import Incident
from fleet.inventory.models import Node
from fleet.lifecycle.playbooks import Case


def case_of(incident: Incident, node: Node, *, recurring: bool = False) -> Case:
    """A node without a pool counts as bare metal, as everywhere."""
    pool = node.pool
    return Case(
        action=incident.action_class,
        cause=incident.cause,
        device=incident.device,
        pool=pool.name if pool else "",
        pool_kind=pool.kind if pool else "bare_metal",
        sku=node.gpu_model,
        recurring=recurring,
        provisioned=bool(node.cluster.provisioner),
    )


FIELDS = (
    "incident__action_class", "incident__cause", "incident__device", "node__pool__name", "node__pool__kind",
    "node__gpu_model", "node__cluster__provisioner",
)  # fmt: skip
"""Of a workflow: what `case_of_values` is made of."""


def case_of_values(values: tuple[Any, ...]) -> Case:
    """The same as `case_of`, of a workflow's incident and node, from FIELDS."""
    action, cause, device, pool, kind, sku, provisioner = values
    return Case(action, cause, device, pool or "", kind or "bare_metal", sku, False, bool(provisioner))
