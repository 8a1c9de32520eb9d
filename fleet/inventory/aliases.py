"""By which names the outside knows a node.

Decides which one node a name, address, UUID or serial means. Refuses to choose: a value that two nodes have matches
none of them, and says so, because a sample booked on the wrong node could take a healthy one out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from fleet.inventory.models import Alias

Miss = Literal["unknown_node", "ambiguous_node"]


@dataclass(frozen=True, slots=True)
class Match:
    """The node, or why there is none."""

    node_id: int | None
    miss: Miss | None = None


_AMBIGUOUS = -1


class AliasTable:
    """One cluster's aliases in memory; names match whatever their case."""

    __slots__ = ("_of",)

    def __init__(self, pairs: Iterable[tuple[int, str]] = ()) -> None:
        self._of: dict[str, int] = {}
        for node_id, value in pairs:
            key = value.casefold()
            if key and self._of.setdefault(key, node_id) != node_id:
                self._of[key] = _AMBIGUOUS

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AliasTable) and self._of == other._of

    __hash__ = None  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self._of)

    def resolve(self, value: str) -> Match:
        found = self._of.get(value.strip().casefold())
        if found is None:
            return Match(None, "unknown_node")
        return Match(None, "ambiguous_node") if found == _AMBIGUOUS else Match(found)


def load(cluster_id: int) -> AliasTable:
    """The table of every node that is there. One query."""
    rows = Alias.objects.filter(cluster_id=cluster_id, node__gone_at=None).values_list("node_id", "value")
    return AliasTable(rows.iterator(chunk_size=20_000))


def sentence(miss: Miss, value: str) -> str:
    if miss == "ambiguous_node":
        return f"{value!r} is a name of two nodes, so it was booked on neither."
    return f"{value!r} is not a name of any node of this cluster."
