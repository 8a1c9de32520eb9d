"""Is what was measured good enough?

Decides per value against the higher of a configured number and a share of the baseline (what the other nodes of that
SKU and pool reached), and from all of it whether the test passed. Refuses to call a test passed without a complete
result, with a failed part, with a GPU left out, or against the word of the Job itself. Pure.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from fleet.lifecycle.validation.findings import Finding, Report, Status

PASSED, FAILED, NO_RESULT, SKIPPED, STOPPED = "passed", "failed", "no_result", "skipped", "stopped"
MIN_NODES = 3
"""Below three nodes a median says nothing about what is usual."""
RATES = ("GB/s", "MiB/s", "TFLOPS", "GFLOPS")
"""Units of which more is better; nothing else is compared."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The median of passed runs, newest of each node, and their spread (median absolute deviation)."""

    median: float
    spread: float
    nodes: int


@dataclass(frozen=True, slots=True)
class Limit:
    """`at_least` in the value's own unit, `of_baseline` a share; `below` is what a lower value means."""

    measure: str = ""  # the finding that `at_least` speaks of; "" for every rate
    at_least: float | None = None
    of_baseline: float | None = 0.9
    below: Status = Status.FAIL


@dataclass(frozen=True, slots=True)
class Judged:
    finding: Finding
    baseline: Baseline | None = None
    floor: float | None = None


def baseline_of(values: Mapping[object, float] | Iterable[float]) -> Baseline | None:
    """None while too few nodes have been measured."""
    found = list(values.values() if isinstance(values, Mapping) else values)
    if len(found) < MIN_NODES:
        return None
    median = statistics.median(found)
    return Baseline(median, statistics.median(abs(value - median) for value in found), len(found))


def judge(report: Report, limit: Limit, baselines: Mapping[tuple[str, str], Baseline]) -> list[Judged]:
    """Each finding with what it was held against; a rate below its floor gets the limit's status.

    `baselines` by (name, unit) for GPUs and the whole node, by (name and device, unit) for mounts: see `key_of`.
    """
    return [_one(finding, limit, baselines.get(key_of(finding))) for finding in report.findings]


def key_of(finding: Finding) -> tuple[str, str]:
    """What values are comparable: GPUs of one SKU with each other, a mount only with the same mount elsewhere."""
    whole = not finding.device or finding.device.startswith("GPU ")
    return (finding.name if whole else f"{finding.name} {finding.device}", finding.unit)


def _one(finding: Finding, limit: Limit, baseline: Baseline | None) -> Judged:
    if finding.value is None or finding.unit not in RATES:
        return Judged(finding)
    floors = []
    if limit.at_least is not None and limit.measure in ("", finding.name):
        floors.append(limit.at_least)
    if limit.of_baseline is not None and baseline is not None:
        floors.append(limit.of_baseline * baseline.median)
    floor = max(floors, default=None)
    if floor is None or finding.value >= floor or finding.status != Status.PASS:
        return Judged(finding, baseline, floor)
    text = f"{finding.value:g} {finding.unit} is below {floor:.4g} {finding.unit}"
    if baseline is not None:
        text += f"; the median of {baseline.nodes} nodes is {baseline.median:.4g}"
    return Judged(replace(finding, status=limit.below, text=text), baseline, floor)


def conclude(report: Report, judged: Iterable[Judged], job_failed: str | None, gpus: int | None) -> tuple[str, str]:
    """(result, sentence). `job_failed` is the Job's own complaint, None when it succeeded; `gpus` as many must be seen.

    A failed part outweighs everything, so that it is named even where the log is cut off behind it.
    """
    found = [item.finding for item in judged]
    bad = [finding for finding in found if finding.status == Status.FAIL]
    if bad:
        more = f" and {len(bad) - 3} more" if len(bad) > 3 else ""
        return FAILED, "; ".join(_said(finding) for finding in bad[:3]) + more
    if report.problem:
        return NO_RESULT, f"No result: {report.problem}." + (f" {job_failed}" if job_failed else "")
    if job_failed is not None:
        return FAILED, f"The Job failed although nothing in its log did: {job_failed or 'no message'}"
    if gpus and report.gpus and len(report.gpus) < gpus:
        return FAILED, f"Only {len(report.gpus)} of {gpus} GPUs were tested."
    warned = [_said(finding) for finding in found if finding.status == Status.WARN]
    good = sum(finding.status == Status.PASS for finding in found)
    return PASSED, f"{good} results good" + (f"; warnings: {'; '.join(warned[:3])}" if warned else "") + "."


def _said(finding: Finding) -> str:
    return f"{finding.place}: {finding.text or finding.status}"
