"""The gangs that a node holds members of, and those that wait for its return.

Decides both by what the gangs' rows keep; a gang may be in both. Two queries. Refuses what-ifs: the observer's.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from fleet.inventory.models import Node
from fleet.readmodels.gang_list import GangLine, lines, ordered, present

MOST = 20


@dataclass(frozen=True, slots=True)
class OfNode:
    here: list[GangLine]
    blocked: list[GangLine]


def read(node: Node, now: datetime) -> OfNode:
    """Gangs of its cluster, the ones that hold most for nothing first."""
    rows = ordered(present(None).filter(cluster_id=node.cluster_id), "idle")
    here = rows.filter(nodes__contains=[node.name])
    blocked = rows.filter(blockers__contains=[{"node": node.name}])
    return OfNode(lines(here[:MOST], now), lines(blocked[:MOST], now))
