"""What it means that a fault comes back."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.health import correlation_again as again
from fleet.health.correlation_again import Offence
from tests.builders import T0


def at(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def test_three_opens_within_an_hour_keep_it_open_until_half_an_hour_of_quiet() -> None:
    opened = [at(0), at(20), at(40)]
    assert again.held_open_until(opened, at(42), at(43)) == at(72)
    assert again.held_open_until(opened, at(42), at(72)) is None


def test_two_opens_or_three_over_hours_are_no_flapping() -> None:
    assert again.held_open_until([at(0), at(20)], at(21), at(22)) is None
    assert again.held_open_until([at(0), at(70), at(140)], at(141), at(142)) is None


def test_five_bursts_within_a_day_recur_and_one_storm_does_not() -> None:
    assert again.recurs([at(i * 60) for i in range(5)], at(241))
    assert not again.recurs([at(i * 60) for i in range(4)], at(241))
    assert not again.recurs([at(i / 10) for i in range(300)], at(31)), "300 lines in half an hour are one burst"
    assert not again.recurs([at(i * 24 * 60) for i in range(9)], at(9 * 24 * 60))


def offence(days: float, weight: float = 1.0, ref: int = 1) -> Offence:
    return Offence("incident", ref, "INC", T0 - timedelta(days=days), weight)


def test_an_offence_weighs_half_after_each_half_life() -> None:
    total, evidence = again.score([offence(0, ref=2), offence(14), offence(28)], T0)
    assert total == pytest.approx(1.75)
    assert [w.share for w in evidence] == pytest.approx([1.0, 0.5, 0.25])


def test_a_repair_wipes_what_came_before_it() -> None:
    total, evidence = again.score([offence(1), offence(5)], T0, repaired_at=T0 - timedelta(days=2))
    assert len(evidence) == 1 and total < 1


@given(st.lists(st.floats(0, 100), max_size=20), st.floats(0, 50))
def test_without_new_offences_a_score_never_grows(days: list[float], later: float) -> None:
    offences = [offence(d, ref=i) for i, d in enumerate(days)]
    now, _ = again.score(offences, T0)
    then, _ = again.score(offences, T0 + timedelta(days=later))
    assert 0 <= then <= now + 1e-9


@given(st.lists(st.floats(0, 2000), min_size=1, max_size=50))
def test_bursts_are_never_more_than_times_and_lie_apart(minutes: list[float]) -> None:
    begun = again.bursts(at(m) for m in minutes)
    assert 1 <= len(begun) <= len(minutes)
    assert all(later - earlier > again.BURST for earlier, later in itertools.pairwise(begun))
