"""Who asks for a claim, as much of each as the guards look at.

Decides what is read of a workflow that waits for a guard: a thousand of them are looked at every few seconds, so whole
rows are loaded only of those whose answer changes. Refuses to write, and to be what is written from: a row is locked
and compared with what was read first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from django.db.models import F, Func, JSONField, QuerySet, TextField, Value

from fleet.inventory.models import Mode
from fleet.lifecycle import unused
from fleet.lifecycle.models import Workflow

VERB = Func(
    Func(F("plan"), F("step"), function="jsonb_array_element", output_field=JSONField()),
    Value("verb"),
    function="jsonb_extract_path_text",
    output_field=TextField(),
)
"""The verb of the present step, without the plan around it."""
FIELDS = (
    "pk", "version", "node_id", "created_at", "blocked_code", "blocked_text", "blocked_until", "node__pool__name",
    "node__pool__mode", "node__owners", "incident__severity", "incident__mode", "incident__rule", "asked_verb",
    "under_way",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Asker:
    """`pool` and `pool_mode` are "" for a node without a pool, `verb` is "" behind the last step."""

    pk: int
    version: int
    node_id: int
    created_at: datetime | None
    code: str
    text: str
    until: datetime | None
    pool: str
    pool_mode: str
    owners: Iterable[Mapping[str, str]]
    urgent: bool
    verb: str
    under_way: bool = False  # it has its share of the in-flight cap, and has begun
    only_looks: str = ""  # the rule whose fault it heals, where that is in mode observe

    @classmethod
    def of(cls, workflow: Workflow) -> Self:
        """From a row with its node and pool, or from one that is not stored yet."""
        pool, incident = workflow.node.pool, workflow.incident
        return cls(
            workflow.pk, workflow.version, workflow.node_id, workflow.created_at, workflow.blocked_code,
            workflow.blocked_text, workflow.blocked_until, pool.name if pool else "", pool.mode if pool else "",
            workflow.node.owners, incident is not None and incident.severity == "unhealthy", workflow.verb,
            only_looks=incident.rule if incident is not None and incident.mode == Mode.OBSERVE else "",
        )  # fmt: skip

    @classmethod
    def of_values(cls, values: tuple[Any, ...]) -> Self:
        """From FIELDS."""
        pk, version, node_id, created_at, code, text, until, pool, mode, owners, severity, limit, rule, verb, begun = (
            values
        )
        urgent = severity == "unhealthy"
        return cls(
            pk,
            version,
            node_id,
            created_at,
            code,
            text,
            until,
            pool or "",
            mode or "",
            owners,
            urgent,
            verb or "",
            begun,
            rule if limit == Mode.OBSERVE else "",
        )

    def is_still(self, workflow: Workflow) -> bool:
        """Is the locked row what was read?"""
        return (workflow.version, workflow.blocked_code) == (self.version, self.code)


def read(workflows: QuerySet[Workflow]) -> list[Asker]:
    """In line: first those that are furthest, then the oldest. One query, no locks."""
    rows = (
        workflows.annotate(asked_verb=VERB, under_way=unused.UNDER_WAY)
        .order_by("-step", "created_at", "pk")
        .values_list(*FIELDS)
    )
    return [Asker.of_values(row) for row in rows]
