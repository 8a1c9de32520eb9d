"""How long a head that is down can stay away before its workers give up.

Decides by the share of the recovery budget that is used: a warning from a half, critical from four fifths; without
fault tolerance there is no budget and the state is lost at once. Refuses a head that has not been up yet (the cluster
is being made) and one that nobody wants up.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from fleet.gangs.conditions.condition import Condition, found
from fleet.gangs.conditions.rayfacts import cluster_of, workers
from fleet.gangs.form import Gang
from fleet.ports.ray import RayFacts

WARNS, CRITICAL = 0.5, 0.8


def head(gang: Gang, now: datetime, down_since: datetime | None = None) -> Iterator[Condition]:
    """`down_since`: when the head was first seen down, remembered: the operator overwrites its condition."""
    cluster = cluster_of(gang)
    if cluster is None or cluster.ray is None or cluster.ray.head_ready is not False:
        return
    if cluster.suspended or cluster.finished or cluster.started_at is None:
        return
    since = min((at for at in (down_since, cluster.ray.head_changed_at) if at is not None), default=now)
    down, budget = max(0, round((now - since).total_seconds())), cluster.ray.recovery_seconds
    if not cluster.ray.fault_tolerant or budget <= 0:
        yield found("head_lost", gang.key, "critical", down=down)
    elif down >= WARNS * budget:
        severe = down >= CRITICAL * budget
        yield found("head_down", gang.key, "critical" if severe else "warning", down=down, budget=budget,
                    left=max(0, budget - down))  # fmt: skip


def unprotected(key: str, facts: RayFacts) -> Iterator[Condition]:
    """Before submission: a head whose end is the end of all work."""
    if not facts.fault_tolerant and workers(facts):
        yield found("head_unprotected", key, "notice")
