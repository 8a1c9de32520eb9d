"""How many nodes may begin: the window, the number at once, the failures."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle.maintenance_pace import Pace, Progress, turn
from fleet.policy.windows import OPENING, Window

NIGHT = Window(OPENING, "night", "Europe/Berlin", frozenset(range(1, 8)), time(2, 30), 60)
COUNTS = st.integers(min_value=0, max_value=50)


@given(
    COUNTS, COUNTS, COUNTS, COUNTS, st.one_of(st.none(), st.integers(1, 20)), st.one_of(st.none(), st.integers(1, 9))
)
def test_never_more_at_once_than_the_pace_says_and_never_a_wait_without_a_reason(
    pending: int, begun: int, failed: int, forgiven: int, at_once: int | None, stop_after: int | None
) -> None:
    given_ = turn(
        Pace(at_once, stop_after), Progress(pending, begun, failed, forgiven), datetime(2026, 11, 29, tzinfo=UTC)
    )
    assert 0 <= given_.room <= pending
    assert at_once is None or given_.room == 0 or begun + given_.room <= at_once
    assert stop_after is None or given_.room == 0 or failed - forgiven < stop_after
    assert given_.room or not pending or given_.why.text


@given(st.integers(0, 60 * 24 * 400))
def test_nothing_begins_outside_the_window_on_any_day_of_the_year(minute: int) -> None:
    now = datetime(2026, 3, 1, tzinfo=UTC) + timedelta(minutes=minute)
    given_ = turn(Pace(window=NIGHT), Progress(pending=3), now)
    assert (given_.room > 0) == (NIGHT.until(now) is not None)
    if not given_.room:
        assert given_.why.until is not None and given_.why.until > now
        assert turn(Pace(window=NIGHT), Progress(pending=3), given_.why.until).room == 3


def test_a_night_whose_start_the_clock_skips_begins_with_the_jump() -> None:
    jump = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)  # 02:00 becomes 03:00 in Berlin
    assert turn(Pace(window=NIGHT), Progress(pending=1), jump - timedelta(minutes=1)).room == 0
    assert turn(Pace(window=NIGHT), Progress(pending=1), jump).room == 1
    assert turn(Pace(window=NIGHT), Progress(pending=1), jump + timedelta(minutes=60)).room == 0


def test_a_window_that_is_over_for_good_asks_a_person() -> None:
    once = Window(OPENING, "once", "UTC", frozenset({7}), time(2), 60, ends=datetime(2026, 11, 29, 3, tzinfo=UTC))
    over = turn(Pace(window=once), Progress(pending=2), datetime(2026, 11, 30, tzinfo=UTC))
    assert over.pauses and over.why.text == "The window is over and does not come again; 2 nodes were not reached."


def test_failures_that_a_person_saw_stop_it_no_more() -> None:
    now = datetime(2026, 11, 29, tzinfo=UTC)
    assert turn(Pace(stop_after=2), Progress(pending=1, failed=2), now).pauses
    assert turn(Pace(stop_after=2), Progress(pending=1, failed=3, forgiven=2), now).room == 1
