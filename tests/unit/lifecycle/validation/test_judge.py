"""What a value is held against, and when a node's counts and facts agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle.validation import judge, nccl
from fleet.lifecycle.validation.conditions import Counts, drift_of, profile_of
from fleet.lifecycle.validation.findings import Finding, Report, Status
from fleet.lifecycle.validation.judge import Baseline, Limit
from tests import diagnostics

FACTS = ("kernel", "driver")
USUAL = {"kernel": "6.8", "driver": "570"}


def came(busbw: float, limit: Limit, median: float | None = None) -> str:
    report = nccl.parse(diagnostics.nccl(busbw=busbw))
    known = {} if median is None else {("busbw", "GB/s"): Baseline(median, 2.0, 12)}
    return judge.conclude(report, judge.judge(report, limit, known), None, None)[0]


def test_a_configured_number_is_a_floor() -> None:
    limit = Limit("busbw", at_least=460)
    assert came(459.9, limit) == judge.FAILED and came(460, limit) == judge.PASSED


def test_below_nine_tenths_of_the_baseline_is_a_failure() -> None:
    assert came(420, Limit("busbw"), median=470) == judge.FAILED
    assert came(424, Limit("busbw"), median=470) == judge.PASSED


def test_the_higher_floor_counts() -> None:
    assert came(430, Limit("busbw", at_least=440), median=470) == judge.FAILED
    assert came(430, Limit("busbw", at_least=400), median=500) == judge.FAILED


def test_a_limit_may_only_warn() -> None:
    assert came(300, Limit("busbw", below=Status.WARN), median=470) == judge.PASSED


def test_too_few_nodes_make_no_baseline() -> None:
    assert judge.baseline_of([470.0, 471.0]) is None
    assert judge.baseline_of([470.0, 472.0, 430.0]) == Baseline(470.0, 2.0, 3)


@given(st.lists(st.sampled_from(list(Status)), max_size=8), st.booleans(), st.booleans())
def test_passed_means_complete_succeeded_and_nothing_failed(
    statuses: list[Status], problem: bool, failed: bool
) -> None:
    report = Report(tuple(Finding("t", status) for status in statuses), "cut off" if problem else "")
    found, _ = judge.conclude(report, judge.judge(report, Limit(), {}), "exit code 1" if failed else None, None)
    assert (found == judge.PASSED) == (not problem and not failed and Status.FAIL not in statuses)


@pytest.mark.parametrize(
    "counts",
    [
        Counts(8, 8, 8, 7),
        Counts(8, 8, 7, 7),
        Counts(8, 7, 8, 8),
        Counts(8, 8, 8, 9),
        Counts(8, 8, None, 8),
        Counts(8, 8, 8, None),
        Counts(None, 8, 8, 8),
    ],
)
def test_counts_that_do_not_agree_or_lack_are_named(counts: Counts) -> None:
    assert counts.problem()


def test_counts_that_agree_and_nodes_without_gpus_pass() -> None:
    assert not Counts(8, 8, 8, 8).problem()
    assert not Counts(8, None, 8, 8).problem(), "no exporter has ever told of a GPU"
    assert not Counts(None, None, None, None).problem() and not Counts(0, None, 0, 0).problem()


def test_a_fact_of_most_nodes_is_the_profile() -> None:
    assert profile_of([USUAL, USUAL, {"kernel": "6.9", "driver": ""}]) == {"kernel": "6.8"}
    assert profile_of([USUAL, USUAL]) == {}


def test_drift_differs_or_is_unknown_and_never_matches_on_missing() -> None:
    others = [USUAL] * 4
    assert drift_of(USUAL, others, FACTS).differs == ()
    assert "6.9" in drift_of({"kernel": "6.9", "driver": "570"}, others, FACTS).differs[0]
    assert "not told" in drift_of({"kernel": "", "driver": "570"}, others, FACTS).differs[0]
    alone = drift_of(USUAL, [], FACTS)
    assert alone.differs == () and alone.unknown == FACTS


def test_an_upgrade_under_way_is_no_drift() -> None:
    others = [USUAL] * 4 + [{"kernel": "6.9", "driver": "570"}] * 2
    assert drift_of({"kernel": "6.9", "driver": "570"}, others, FACTS).differs == ()
