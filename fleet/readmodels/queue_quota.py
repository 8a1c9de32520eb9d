"""Queues with what they may use, use and borrow, and how many gangs wait in each.

Decides that a local queue is told by the queue it leads to, and that queues with waiting gangs come first. Two queries.
Refuses to add up flavors or systems: one quota never stands for another; and to explain a share by itself: the number
means what its own system says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, Q, Sum

from fleet.gangs.models import QueueRow
from fleet.readmodels.gang_list import WAIT, Visible, present, scope
from fleet.readmodels.queue_words import share_words

MOST = 500


@dataclass(frozen=True, slots=True)
class Share:
    """One quota, in the resource's own unit. None: no such bound."""

    flavor: str
    resource: str
    guaranteed: float | None
    used: float
    reserved: float | None
    borrowed: float
    ceiling: float | None
    wanted: float | None

    @property
    def full(self) -> bool:
        """Nothing more may be had: at its ceiling, or at its guarantee where no borrowing is told."""
        bound = self.ceiling if self.ceiling is not None else None
        return bound is not None and max(self.used, self.reserved or 0.0) >= bound > 0


@dataclass(slots=True)
class QueueLine:
    cluster: str
    key: str
    system: str
    kind: str
    namespace: str
    name: str
    parent: str
    stopped: bool
    head_blocks: bool
    shares: list[Share]
    share: float | None
    share_text: str
    weight: float | None
    waiting: int | None  # by its system's own count
    said: list[list[Any]]
    gangs: int = 0  # that we know of
    gangs_waiting: int = 0
    idle: int = 0  # GPUs that its gangs hold for nothing
    local: list[str] = field(default_factory=list)  # local queues that lead to it

    @property
    def full(self) -> bool:
        return any(share.full for share in self.shares)

    @property
    def says_of_share(self) -> str:
        return share_words(self.system, self.share, self.share_text)


NAMES = (
    "cluster__name", "key", "system", "kind", "namespace", "name", "parent", "stopped", "head_blocks", "quotas",
    "share", "share_text", "weight", "waiting", "said", "leads_to",
)  # fmt: skip

NAMES_OF_LINE = ("cluster", *NAMES[1:9], "shares", *NAMES[10:-1])


def read(visible: Visible, cluster: str = "") -> list[QueueLine]:
    rows = QueueRow.objects.filter(**scope(visible, cluster)).order_by("cluster__name", "system", "name", "key")
    found: dict[tuple[str, str], QueueLine] = {}
    locals_of: dict[tuple[str, str, str], list[str]] = {}
    leads: dict[tuple[str, str], tuple[str, str]] = {}
    for row in rows.values_list(*NAMES)[:MOST]:
        quotas, leads_to = row[9], row[-1]
        told = (*row[:9], [Share(**one) for one in quotas], *row[10:-1])
        line = QueueLine(**dict(zip(NAMES_OF_LINE, told, strict=True)))
        if leads_to:
            locals_of.setdefault((line.cluster, line.system, leads_to), []).append(f"{line.namespace}/{line.name}")
            leads[line.cluster, line.key] = (line.system, leads_to)
        else:
            found[line.cluster, line.key] = line
    by_name = {(line.cluster, line.system, line.name): line for line in found.values()}
    for (name, system, target), some in locals_of.items():
        if (name, system, target) in by_name:
            by_name[name, system, target].local = sorted(some)
    _count(visible, cluster, found, by_name, leads)
    return sorted(found.values(), key=lambda line: (-line.gangs_waiting, not line.full, line.cluster, line.name))


def _count(
    visible: Visible,
    cluster: str,
    found: dict[tuple[str, str], QueueLine],
    by_name: dict[tuple[str, str, str], QueueLine],
    leads: dict[tuple[str, str], tuple[str, str]],
) -> None:
    counted = (
        present(visible, cluster)
        .exclude(queue_key="")
        .order_by()
        .values_list("cluster__name", "queue_key")
        .annotate(n=Count("pk"), waits=Count("pk", filter=Q(state__in=WAIT)), idle=Sum("gpus_held_idle"))
    )
    for name, key, number, waits, idle in counted:
        line = found.get((name, key))
        if line is None and (name, key) in leads:
            line = by_name.get((name, *leads[name, key]))
        if line is not None:
            line.gangs += number
            line.gangs_waiting += waits
            line.idle += idle or 0
