"""Lost GPU-hours now against lost GPU-hours then."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleet.lifecycle.waiting_for_jobs import END, INTERVAL, SAVED, Work, sentence, unannounced, weigh, work_of
from tests.builders import T0
from tests.domain.lifecycle.world import a_pod

NOW = T0
FAR = NOW + timedelta(hours=4)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def test_fifty_minutes_of_a_hundred_and_twenty_eight_gpus_are_worth_eleven_minutes() -> None:
    work = [Work("train/llm", 128, NOW - minutes(50), True, 3600)]
    best = weigh(work, 0, False, NOW, FAR)
    assert best.at == NOW + minutes(11)
    assert round(best.now, 1) == 106.7 and round(best.then, 1) == 2.1
    said = sentence(best, work, FAR)
    assert "checkpoint of train/llm" in said and "loses 106.7 GPU-h (128 GPUs, last checkpoint at 02:10 UTC)" in said
    assert "then 2.1 GPU-h, and waiting costs 0.0 GPU-h" in said and "until 07:00 UTC" in said


def test_work_just_saved_is_stopped_now() -> None:
    best = weigh([Work("train/llm", 128, NOW - timedelta(seconds=5), True, 3600)], 0, True, NOW, FAR)
    assert best.at is None


def test_a_job_that_ends_soon_is_let_to_end() -> None:
    best = weigh([Work("train/eval", 8, NOW - minutes(90), ends_at=NOW + minutes(20))], 0, False, NOW, FAR)
    assert (best.at, best.what, best.then) == (NOW + minutes(20), "end", 0.0)


def test_nothing_is_waited_for_beyond_the_limit() -> None:
    work = [Work("train/llm", 128, NOW - minutes(10), True, 6 * 3600)]
    assert weigh(work, 0, False, NOW, FAR).at is None


def test_idle_gpus_and_a_degraded_node_make_waiting_dear() -> None:
    soon = [Work("train/small", 2, NOW - minutes(170), True, 3 * 3600)]
    assert weigh(soon, 0, False, NOW, FAR).at is not None
    assert weigh(soon, 60, False, NOW, FAR).at is None
    long = [Work("train/llm", 64, NOW - minutes(60), True, 4 * 3600)]
    ending = [Work("train/llm", 64, NOW - minutes(20), ends_at=NOW + timedelta(hours=3.9))]
    assert weigh(long, 0, True, NOW, FAR).at is not None
    assert weigh(ending, 0, False, NOW, FAR).at is not None and weigh(ending, 0, True, NOW, FAR).at is None


def test_a_job_that_announces_nothing_is_not_waited_for_and_the_loss_is_told() -> None:
    work = work_of([a_pod("w-0", "n", started_at=NOW - timedelta(hours=10))], {"train/llm": 4}, 8, NOW)
    best = weigh(work, 0, False, NOW, FAR)
    assert best.at is None
    assert unannounced(work, best) == (
        "Stopping its work now loses up to 320.0 GPU-h (no checkpoint is told of, running since 17:00 UTC)."
    )


@pytest.mark.parametrize(
    ("marks", "saved", "interval"),
    [
        ({SAVED: "2026-11-29T02:00:00Z"}, "02:00", None),
        ({SAVED: "2026-11-29T11:00:00+09:00", INTERVAL: "30m"}, "02:00", 1800),
        ({SAVED: f"{(NOW - timedelta(minutes=1)).timestamp()}"}, "02:59", None),
        ({INTERVAL: "1h"}, "02:00", 3600),  # counted from the start at 00:00; that of 03:00 is still being written
    ],
)
def test_annotations_tell_what_is_saved(marks: dict[str, str], saved: str, interval: float | None) -> None:
    (work,) = work_of([a_pod("w-0", "n", started_at=NOW - timedelta(hours=3), annotations=marks)], {}, 8, NOW)
    assert (f"{work.saved_at:%H:%M}", work.interval, work.sure, work.odd) == (saved, interval, True, "")


@pytest.mark.parametrize(
    ("key", "value"), [(SAVED, "yesterday"), (INTERVAL, "often"), (END, "9" * 40), (SAVED, "2026-13-01")]
)
def test_an_annotation_that_cannot_be_read_is_told(key: str, value: str) -> None:
    (work,) = work_of([a_pod("w-0", "n", annotations={key: value})], {}, 8, NOW)
    assert key in work.odd and value[:40] in work.odd
    assert work.odd in unannounced([work], weigh([work], 0, False, NOW, FAR))


def test_a_checkpoint_of_the_future_is_not_believed() -> None:
    later = (NOW + timedelta(hours=2)).isoformat()
    (work,) = work_of([a_pod("w-0", "n", started_at=NOW - timedelta(hours=1), annotations={SAVED: later})], {}, 8, NOW)
    assert work.saved_at == NOW - timedelta(hours=1) and not work.sure


def test_a_resource_claim_counts_the_whole_node() -> None:
    (work,) = work_of([a_pod("w-0", "n", gpus=0, claims=True)], {"train/llm": 16}, 8, NOW)
    assert work.gpus == 128


works = st.builds(
    lambda gpus, ago, interval, ends: Work(
        "train/x", gpus, NOW - timedelta(seconds=ago), True, interval, ends and NOW + timedelta(seconds=ends)
    ),
    st.integers(0, 1024),
    st.floats(0, 1e6),
    st.none() | st.floats(60, 1e5),
    st.none() | st.floats(1, 1e5),
)


@given(st.lists(works, max_size=5), st.integers(0, 64), st.booleans(), st.floats(0, 1e5))
def test_waiting_never_costs_more_than_it_saves_nor_longer_than_allowed(
    work: list[Work], idle: int, degraded: bool, limit: float
) -> None:
    latest = NOW + timedelta(seconds=limit)
    best = weigh(work, idle, degraded, NOW, latest)
    if best.at is not None:
        assert NOW < best.at <= latest
        assert best.then + best.waiting < best.now
    for one in work:
        assert one.lost(NOW, NOW) >= 0 and one.lost(latest, NOW) >= 0


@given(works, st.floats(0, 1e5))
def test_a_job_is_never_asked_to_wait_for_its_checkpoint_twice(one: Work, later: float) -> None:
    """At the moment that was waited for, waiting again is never worth it for the same work alone."""
    best = weigh([one], 0, False, NOW, NOW + timedelta(days=30))
    if best.at is None or best.what != "checkpoint":
        return
    moment: datetime = best.at
    saved = moment - timedelta(seconds=60)
    after = Work(one.name, one.gpus, saved, True, one.interval, one.ends_at)
    assert after.lost(moment, moment) <= one.gpus * 61 / 3600
