"""What was changed a short while ago about that which finds faults: rules, drivers, kernels, images, kubelets.

Decides how long a change is remembered, and keeps it in the database, so that a restarted observer suspects what its
predecessor would have suspected. Refuses to judge: `correlation_shared` weighs the change against who fails.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from fleet.health.limits import LIMITS
from fleet.health.models import DetectorChange, RulesRead

WHAT = 200
"""Characters that are kept of what changed."""


@dataclass(frozen=True, slots=True)
class Lately:
    """`rules`: check -> what happened to it. `nodes`: node name -> what became of it; both go on a sentence."""

    rules: dict[str, str]
    nodes: dict[str, tuple[str, ...]]


def note_rules(cluster_id: int, text: str, rules: Iterable[str], now: datetime) -> None:
    """The rules were read anew as `text`, which changed `rules`. Call inside the fence of the observer."""
    RulesRead.objects.update_or_create(cluster_id=cluster_id, defaults={"text": text, "read_at": now})
    what = f"its rule was changed at {now:%H:%M} UTC"
    DetectorChange.objects.bulk_create(
        [DetectorChange(cluster_id=cluster_id, check_id=rule[:64], what=what, at=now) for rule in rules]
    )


def rules_before(cluster_id: int) -> str | None:
    """The text of the rules that this cluster was judged by last; None where it never was."""
    return RulesRead.objects.filter(cluster_id=cluster_id).values_list("text", flat=True).first()


def note_versions(cluster_id: int, updates: Iterable[tuple[int, str]], now: datetime) -> None:
    """Nodes (by id) whose software became another, each with a phrase such as "the driver became 570.86"."""
    DetectorChange.objects.bulk_create(
        [DetectorChange(cluster_id=cluster_id, node_id=pk, what=what[:WHAT], at=now) for pk, what in updates]
    )


def lately(cluster_id: int, now: datetime) -> Lately:
    """What is remembered now. One query. A time ahead of the clock (it was set back) counts as now."""
    since = now - timedelta(seconds=LIMITS.changed_window)
    rows = DetectorChange.objects.filter(cluster_id=cluster_id, at__gt=since).order_by("at", "pk")
    rules: dict[str, str] = {}
    nodes: dict[str, tuple[str, ...]] = {}
    for check, node, what in rows.values_list("check_id", "node__name", "what"):
        if check:
            rules[check] = what
        elif node:
            nodes[node] = (*nodes.get(node, ()), what)
    return Lately(rules, nodes)


def forget(now: datetime) -> int:
    """Drop what is no longer looked at. Returns how many rows went."""
    since = now - timedelta(seconds=LIMITS.changed_window)
    return DetectorChange.objects.filter(at__lte=since).delete()[0]
