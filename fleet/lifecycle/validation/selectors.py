"""What was tested of a node, for pages and tickets.

Decides how much is told: the runs of the last rounds, and of each run what failed, what was measured, and how many
results were simply good. A fixed number of queries.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, Q

from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Step, Workflow
from fleet.lifecycle.playbooks import CONFIRM
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun

MOST_RUNS = 8
ANSWERED = timedelta(hours=24)
"""An active test speaks for a day: as long as a remedy must last to count as one."""


@dataclass(frozen=True, slots=True)
class Tested:
    """One run with what is worth a line: failures, warnings and measured values; `good` results in all."""

    run: ValidationRun
    lines: Sequence[ValidationResult]
    good: int


def of_node(node_id: int, most: int = MOST_RUNS) -> list[Tested]:
    """The newest runs of the node, the newest first. Two queries."""
    return _tested(ValidationRun.objects.filter(node_id=node_id), most)


def of_workflow(workflow_id: int) -> list[Tested]:
    return _tested(ValidationRun.objects.filter(workflow_id=workflow_id), 4 * MOST_RUNS)


def _tested(runs: Any, most: int) -> list[Tested]:
    found = list(
        runs.annotate(good=Count("results", filter=Q(results__status="pass"))).order_by("-started_at", "-pk")[:most]
    )
    rows = ValidationResult.objects.filter(run__in=found).filter(~Q(status="pass") | Q(value__isnull=False))
    by_run: dict[int, list[ValidationResult]] = {}
    for row in rows.order_by("pk"):
        by_run.setdefault(row.run_id, []).append(row)
    return [Tested(run, by_run.get(run.pk, []), run.good) for run in found]


def evidence(node_id: int) -> list[dict[str, Any]]:
    """What a person pastes to a vendor."""
    return [
        {
            "test": tested.run.test,
            "level": tested.run.level,
            "at": str(tested.run.started_at),
            "result": tested.run.result or "running",
            "text": tested.run.text,
            "good": tested.good,
            "results": [
                {
                    "name": row.name,
                    "device": row.device,
                    "status": row.status,
                    "value": row.value,
                    "unit": row.unit,
                    "at_least": row.floor,
                    "text": row.text,
                }
                for row in tested.lines[:20]
            ],
        }
        for tested in of_node(node_id)
    ]


def answered(node_ids: Iterable[int], now: datetime) -> set[tuple[int, str]]:
    """(node, cause) of suspicions that a test did not confirm lately. One query."""
    rows = Step.objects.filter(
        workflow__node_id__in=list(node_ids),
        verb=CONFIRM,
        memo__not_confirmed=True,
        ended_at__gte=now - ANSWERED,
        workflow__state=WorkflowState.SUCCEEDED,
    )
    return set(rows.values_list("workflow__node_id", "workflow__incident__cause"))


def not_confirmed(workflow: Workflow) -> str:
    """What the test of the workflow's suspicion said if it did not confirm it, else ""."""
    step = Step.objects.filter(workflow=workflow, verb=CONFIRM, memo__not_confirmed=True).order_by("-pk").first()
    return step.text if step is not None else ""
