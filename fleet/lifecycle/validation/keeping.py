"""Writes what a test came to, and reads what other nodes reached.

Decides that a baseline is made of passed runs alone, of the newest value of each node, and of nodes of the same SKU and
pool. Refuses to end a run twice: the first to record it has.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from django.db import transaction

from fleet.lifecycle.validation import judge
from fleet.lifecycle.validation.findings import Finding, Report
from fleet.lifecycle.validation.judge import Baseline, Judged
from fleet.lifecycle.validation.logs import clean, tail
from fleet.lifecycle.validation.models import ValidationResult, ValidationRun
from fleet.lifecycle.validation.reading import read
from fleet.lifecycle.validation.suite import Test
from fleet.ports.cluster import JOB_DEADLINE

NEWEST = 2000
"""Values read for one baseline: eight of each of 250 nodes."""


def finish(
    run: ValidationRun, test: Test, log: str | None, job_failed: str | None, gpus: int | None, now: datetime
) -> str:
    """Read the log, judge it, keep everything; the run's result. `log` None means that there is none to be had."""
    text = clean(log or "")
    report = read(test.kind, text, job_failed is None)
    if log is None and report.problem:
        report = Report(problem="the Job's log is gone")
    judged = judge.judge(report, test.limit, baselines(run, report.findings))
    result, said = judge.conclude(report, judged, job_failed, gpus)
    if result == judge.NO_RESULT and run.ran_at is not None and JOB_DEADLINE in (job_failed or ""):
        result, said = judge.FAILED, f"It ran and did not end in time. {job_failed}"
    end(run, result, said, now, judged, tail(text))
    return result


@transaction.atomic
def end(
    run: ValidationRun, result: str, text: str, now: datetime, judged: Iterable[Judged] = (), last: str = ""
) -> bool:
    """Record the end of a run. False if it was recorded before."""
    fields = {"result": result, "text": text[:500], "ended_at": now, "tail": last}
    if not ValidationRun.objects.filter(pk=run.pk, ended_at=None).update(**fields):
        return False
    for name, value in fields.items():
        setattr(run, name, value)
    ValidationResult.objects.bulk_create([_row(run, item) for item in judged])
    return True


def _row(run: ValidationRun, item: Judged) -> ValidationResult:
    finding, baseline = item.finding, item.baseline
    return ValidationResult(
        run=run,
        name=finding.name[:120],
        device=finding.device[:200],
        status=finding.status,
        value=finding.value,
        unit=finding.unit,
        key=key_in(run, finding),
        baseline=baseline.median if baseline else None,
        spread=baseline.spread if baseline else None,
        nodes=baseline.nodes if baseline else 0,
        floor=item.floor,
        text=finding.text[:300],
    )


def key_in(run: ValidationRun, finding: Finding) -> str:
    """What a value may be compared with: the same measure of the same test on the same SKU in the same pool."""
    name, unit = judge.key_of(finding)
    return "|".join((run.sku, run.pool, run.test, name, unit))[:330] if finding.value is not None else ""


def baselines(run: ValidationRun, findings: Iterable[Finding]) -> Mapping[tuple[str, str], Baseline]:
    """By `judge.key_of`; one query per measure, of which a test has a handful. The run's own node has no say."""
    found: dict[tuple[str, str], Baseline] = {}
    wanted = {judge.key_of(finding): key_in(run, finding) for finding in findings if finding.unit in judge.RATES}
    for key, stored in wanted.items():
        rows = (
            ValidationResult.objects.filter(key=stored, value__isnull=False, run__result=judge.PASSED)
            .exclude(run__node_id=run.node_id)
            .order_by("-id")
            .values_list("run__node_id", "device", "value")[:NEWEST]
        )
        newest: dict[tuple[int, str], float] = {}
        for node_id, device, value in rows:
            newest.setdefault((node_id, device), float(value or 0.0))
        by_node: dict[int, list[float]] = {}
        for (node_id, _device), value in newest.items():
            by_node.setdefault(node_id, []).append(value)
        baseline = judge.baseline_of({node_id: sum(values) / len(values) for node_id, values in by_node.items()})
        if baseline is not None:
            found[key] = baseline
    return found
