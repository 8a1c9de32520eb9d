"""A window is a wall time in its own zone, on days when clocks jump too."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.policy.windows import FREEZE, OPENING, Window, decide

DAILY = frozenset(range(1, 8))


def a_window(zone: str = "Asia/Seoul", start: str = "02:00", minutes: int = 120, **fields: object) -> Window:
    values = {"kind": OPENING, "name": "night", "zone": zone, "days": DAILY, "start": time.fromisoformat(start)}
    return Window(**{**values, "minutes": minutes, **fields})  # type: ignore[arg-type]


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_two_in_the_night_in_seoul_is_five_in_the_evening_of_the_day_before_in_utc() -> None:
    window = a_window()
    assert decide([window], "", False, utc("2026-11-29 17:30")).allowed
    outside = decide([window], "", False, utc("2026-11-29 16:59"))
    assert outside.code == "window" and outside.until == utc("2026-11-29 17:00")
    assert "2026-11-30 02:00 Asia/Seoul" in outside.text


def test_a_start_that_the_clock_jumps_over_begins_with_the_jump() -> None:
    window = a_window("America/New_York", "02:30", 60)  # 2026-03-08: 02:00 EST becomes 03:00 EDT
    assert window.until(utc("2026-03-08 06:59")) is None
    assert window.until(utc("2026-03-08 07:01")) == utc("2026-03-08 08:00")


def test_a_start_that_exists_twice_begins_once() -> None:
    window = a_window("America/New_York", "01:30", 45)  # 2026-11-01: 01:30 EDT, and again 01:30 EST
    begins = [begins for begins, _ in window.spans(utc("2026-11-01 00:00")) if begins < utc("2026-11-02 00:00")]
    assert begins == [utc("2026-11-01 05:30")]


def test_a_freeze_wins_over_an_opening_and_lets_urgent_faults_pass_only_where_it_says_so() -> None:
    opening, freeze = a_window(), a_window(kind=FREEZE, name="quarter end", minutes=60)
    now = utc("2026-11-29 17:30")
    blocked = decide([opening, freeze], "", True, now)
    assert blocked.code == "freeze" and blocked.until == utc("2026-11-29 18:00") and "quarter end" in blocked.text
    assert decide([opening, a_window(kind=FREEZE, minutes=60, urgent_passes=True)], "", True, now).allowed
    assert decide([], "", False, now).allowed, "without windows every time is good"


def test_a_window_of_another_pool_concerns_nobody_else() -> None:
    assert decide([a_window(kind=FREEZE, pool="h100", minutes=1440)], "l40s", False, utc("2026-11-29 12:00")).allowed


def test_nights_that_touch_are_told_as_one() -> None:
    freeze = a_window("UTC", "00:00", 1440, kind=FREEZE, ends=utc("2026-12-03 00:00"))
    assert decide([freeze], "", False, utc("2026-11-30 10:00")).until == utc("2026-12-03 00:00")


JUMPS = [
    ("Europe/Berlin", "2026-03-29"), ("Europe/Berlin", "2026-10-25"), ("Australia/Lord_Howe", "2026-04-05"),
    ("America/New_York", "2026-03-08"), ("America/New_York", "2026-11-01"), ("Asia/Seoul", "2026-10-25"),
]  # fmt: skip


@pytest.mark.parametrize(("zone", "day"), JUMPS)
@pytest.mark.parametrize(("start", "minutes"), [("00:00", 1440), ("18:00", 1440), ("00:00", 720), ("01:30", 1440)])
def test_days_of_freeze_leave_no_gap_where_a_clock_is_set_back(zone: str, day: str, start: str, minutes: int) -> None:
    """By real minutes alone, a freeze of whole days is over an hour before midnight on a day of twenty-five hours."""
    whole = [a_window(zone, start, minutes, kind=FREEZE)]
    if minutes == 720:
        whole.append(a_window(zone, "12:00", 720, kind=FREEZE))
    for quarter in range(-96, 2 * 96):
        at = utc(f"{day} 00:00") + timedelta(minutes=15 * quarter)
        assert decide(whole, "", True, at).code == "freeze", at


@pytest.mark.parametrize(("zone", "day"), JUMPS)
@pytest.mark.parametrize(("start", "minutes"), [("00:30", 240), ("01:00", 300), ("23:00", 420)])
def test_an_opening_reaches_into_no_hour_that_it_does_not_name(zone: str, day: str, start: str, minutes: int) -> None:
    """By real minutes alone, a night that ends at six would end at seven on a day of twenty-three hours."""
    window, begins = a_window(zone, start, minutes), time.fromisoformat(start)
    for quarter in range(-96, 2 * 96):
        at = utc(f"{day} 00:00") + timedelta(minutes=15 * quarter)
        wall = at.astimezone(ZoneInfo(zone))
        since = (wall.hour * 60 + wall.minute - begins.hour * 60 - begins.minute) % 1440
        assert since < minutes or decide([window], "", False, at).code == "window", wall


@pytest.mark.parametrize(
    "bad",
    [{"zone": "Mars/Olympus"}, {"minutes": 0}, {"minutes": 99999}, {"days": frozenset()}, {"days": frozenset({8})}],
)
def test_what_cannot_be_kept_is_told(bad: dict[str, object]) -> None:
    assert a_window(**bad).problem()  # type: ignore[arg-type]


@given(
    zone=st.sampled_from(["Asia/Seoul", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "UTC"]),
    hours=st.integers(0, 6 * 365 * 24),
    start=st.times(),
    minutes=st.integers(1, 3000),
    days=st.frozensets(st.integers(1, 7), min_size=1),
)
def test_who_is_blocked_is_let_through_at_the_time_told(
    zone: str, hours: int, start: time, minutes: int, days: frozenset[int]
) -> None:
    now = utc("2024-01-01 00:00") + timedelta(hours=hours)
    window = Window(OPENING, "w", zone, days, start.replace(second=0, microsecond=0), minutes)
    assert not window.problem()
    decision = decide([window], "", False, now)
    if not decision.allowed:
        assert decision.until is not None and now < decision.until <= now + timedelta(days=9)
        assert decide([window], "", False, decision.until).allowed
