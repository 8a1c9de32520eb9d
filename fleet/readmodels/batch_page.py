"""One batch as people see it: its exact list, what the guards say to each node, and how far it is.

Decides which numbers stand above the list and why the rest waits, grouped by reason. Refuses to ask the guards again
for what is under way: there the driver's own answer is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Count, F
from django.utils.translation import gettext as _

from fleet.lifecycle import bulk, bulk_foresee
from fleet.lifecycle.models import Batch, BatchNode
from fleet.policy.models import Approval
from fleet.readmodels import words
from fleet.readmodels.approvals_page import in_view, title_of_batch
from fleet.readmodels.lists import Filter, Page, counts_of, cut

SHOWN = 500  # nodes in the list
PLAN_WORDS = {
    bulk_foresee.NOW: lambda: _("may begin now"),
    bulk_foresee.WAITS: lambda: _("would wait"),
    bulk_foresee.REFUSED: lambda: _("refused"),
}
PLANNING = (Batch.DRAFT, Batch.WAITING)


@dataclass(frozen=True, slots=True)
class Line:
    """One node. `state` is of the plan (now, waits, refused) before the start, of the batch's node after it."""

    member: BatchNode
    state: str
    word: str
    text: str
    until: datetime | None = None


@dataclass(slots=True)
class BatchPage:
    batch: Batch
    lines: list[Line]
    counts: Counter[str]
    why: list[tuple[str, int]] = field(default_factory=list)  # what keeps nodes waiting or refused, with how many
    approval: Approval | None = None

    @property
    def planning(self) -> bool:
        """It has not begun: the list shows what the guards would say."""
        return self.batch.state in PLANNING

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def shown(self) -> list[Line]:
        return self.lines[:SHOWN]

    @property
    def more(self) -> int:
        return max(0, len(self.lines) - SHOWN)

    @property
    def gangs(self) -> list[str]:
        return sorted({line.member.node.gang for line in self.lines if line.member.node.gang})

    @property
    def title(self) -> str:
        return title_of(self.batch, self.total)

    @property
    def playbook(self) -> str:
        """`NAME@VERSION`; "" of an action."""
        return bulk.named_of(self.batch)

    @property
    def verbs(self) -> list[str]:
        """The steps of its playbook in words, as they were when the list was made; [] of an action."""
        steps = bulk.asked_of(self.batch).steps if self.batch.playbook else ()
        return [" → ".join(words.word(words.VERBS, verb) for verb in step.ladder or (step.verb,)) for step in steps]

    @property
    def bars(self) -> list[tuple[str, int, int]]:
        """(class, x, width) of done, under way and failed nodes in a bar that is 600 wide."""
        found, x = [], 0
        for kind, state in (("o", "done"), ("f", "begun"), ("x", "failed")):
            width = round(600 * self.counts[state] / max(1, self.total))
            found.append((kind, x, width))
            x += width
        return found


def title_of(batch: Batch, count: int) -> str:
    return title_of_batch(batch.action, count, bulk.named_of(batch))


def read(pk: int, visible: frozenset[str] | None, now: datetime) -> BatchPage | None:
    batch = Batch.objects.select_related("cluster").filter(pk=pk).first()
    if batch is None or (visible is not None and batch.cluster.name not in visible):
        return None
    members = list(batch.members.select_related("node__cluster", "node__pool", "workflow").order_by("place"))
    lines = _planned(batch, members, now) if batch.state in PLANNING else [_stands(member) for member in members]
    waiting = ("waits", "refused") if batch.state in PLANNING else ("pending", "refused", "failed")
    why = Counter(line.text for line in lines if line.state in waiting and line.text)
    asked = in_view(visible).filter(subject=f"batch:{batch.pk}").order_by("-pk").first()
    return BatchPage(batch, lines, Counter(line.state for line in lines), why.most_common(8), asked)


def _planned(batch: Batch, members: list[BatchNode], now: datetime) -> list[Line]:
    nodes = [member.node for member in members]
    found = bulk_foresee.foresee(batch.cluster, nodes, bulk.asked_of(batch), now, batch.spare_jobs)
    return [
        Line(member, seen.answer, PLAN_WORDS[seen.answer](), seen.why.text, seen.why.until)
        for member, seen in zip(members, found, strict=True)
    ]


def _stands(member: BatchNode) -> Line:
    return Line(member, member.state, words.word(words.MEMBER_STATES, member.state), member.text)


def batches(visible: frozenset[str] | None, wanted: Filter, windowed: bool) -> Page[Batch]:
    """Those that people started, of planned maintenance or not; open ones and the newest first."""
    rows = Batch.objects.select_related("cluster").filter(window__isnull=not windowed).exclude(state=Batch.DRAFT)
    if visible is not None:
        rows = rows.filter(cluster__name__in=visible)
    if wanted.cluster:
        rows = rows.filter(cluster__name=wanted.cluster)
    counts = counts_of(rows)
    if wanted.state:
        rows = rows.filter(state=wanted.state)
    return cut(rows.order_by(F("ended_at").desc(nulls_first=True), "-pk"), wanted.page, counts)


def progress(rows: list[Batch]) -> Mapping[int, Counter[str]]:
    """Nodes of each batch by state. One query."""
    found: dict[int, Counter[str]] = {row.pk: Counter() for row in rows}
    told = BatchNode.objects.filter(batch__in=list(found)).values_list("batch_id", "state").annotate(n=Count("pk"))
    for pk, state, count in told.order_by():
        found[pk][state] = count
    return found
