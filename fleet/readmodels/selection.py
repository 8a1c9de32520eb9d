"""Which nodes a selection means: the fleet page's filters, labels and names, resolved here and now to an exact list.

Decides by the same filters that the fleet page shows, so that what a person saw is what is listed. Refuses an empty
selection (it would be everything), a name that no node has, a selector that cannot be read, and nodes of more than one
cluster: rights and guards are each cluster's own.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fleet.inventory.models import Cluster, Node
from fleet.inventory.topology import BadSelector, parse_selector
from fleet.readmodels.fleet_map import Filters, rows

NAMED = 3  # names in a sentence


class SelectionRefused(Exception):
    """The selection means nothing that can be acted on; the text says why."""


@dataclass(frozen=True, slots=True)
class Selection:
    """All given parts must fit. `labels` is a selector in Kubernetes' grammar; `*` is every node."""

    filters: Filters = field(default_factory=Filters)
    labels: str = ""
    names: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.labels.strip() and not self.names and not self.filters.without("cluster").active()

    def as_told(self) -> dict[str, Any]:
        """What was asked for, without what was not."""
        told: dict[str, Any] = dict(self.filters.active())
        if self.labels.strip():
            told["labels"] = self.labels.strip()
        if self.names:
            told["names"] = list(self.names)
        return told


def resolve(selection: Selection, visible: frozenset[str] | None) -> tuple[Cluster, list[int]]:
    """The cluster and the ids of its nodes that fit, by name. Raises SelectionRefused. Four queries at most."""
    if selection.empty:
        raise SelectionRefused("Say which nodes: an empty selection would be every node. The labels * mean just that.")
    try:
        terms = parse_selector(selection.labels)
    except BadSelector as error:
        raise SelectionRefused(str(error)) from error
    found = [row for row in rows(visible, selection.filters.cluster, *selection.names) if selection.filters.take(row)]
    _all_there(selection, {row.name for row in found})
    clusters = sorted({row.cluster for row in found})
    if len(clusters) > 1:
        raise SelectionRefused(f"These nodes lie in {len(clusters)} clusters ({', '.join(clusters)}): choose one.")
    if not clusters:
        raise SelectionRefused("No node passes this selection.")
    cluster = Cluster.objects.get(name=clusters[0], removed_at=None)
    nodes = Node.objects.filter(cluster=cluster, gone_at=None, name__in=[row.name for row in found]).order_by("name")
    chosen = [pk for pk, labels in nodes.values_list("pk", "labels") if all(term(labels) for term in terms)]
    if not chosen:
        raise SelectionRefused("No node passes this selection.")
    return cluster, chosen


def _all_there(selection: Selection, found: set[str]) -> None:
    missing = [name for name in selection.names if name not in found]
    if missing:
        more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
        raise SelectionRefused(f"Not among the nodes in view: {', '.join(missing[:NAMED])}{more}.")
