"""Bars and charts: lengths that add up, and nothing outside of the picture."""

from __future__ import annotations

import re

import pytest

from dashboard.charts.gather import WIDTH, gather
from dashboard.charts.quota import WIDTH as QUOTA_WIDTH
from dashboard.charts.quota import quota_bar
from dashboard.charts.slots import histogram
from fleet.gangs.questions import Room
from fleet.readmodels.queue_quota import Share


@pytest.mark.parametrize(
    ("placed", "minimum", "wanted", "could", "lengths"),
    [
        (3, 4, 4, 0, (300, 0, 100)),
        (0, 4, 8, 2, (0, 100, 100)),
        (4, 4, 8, 3, (200, 0, 0)),
        (9, 4, 8, 0, (400, 0, 0)),
        (0, 0, 0, 0, (0, 0, 0)),
    ],
)
def test_placed_room_and_missing_add_up_to_the_minimum(
    placed: int, minimum: int, wanted: int, could: int, lengths: tuple[float, float, float]
) -> None:
    bar = gather(placed, minimum, wanted, could, idle=False, waits=True)
    assert (bar.placed, bar.could, bar.need) == lengths
    assert bar.mark <= WIDTH


def test_a_gang_that_does_not_wait_misses_nothing() -> None:
    assert 'class="need"' in gather(0, 4, 4, idle=False, waits=True).svg
    assert 'class="need"' not in gather(0, 4, 4, idle=False, waits=False).svg


def test_a_thousand_members_are_one_bar() -> None:
    svg = gather(500, 900, 1000, idle=True, waits=True).svg
    assert len(svg) < 600 and 'class="cut"' not in svg and 'class="i"' in svg


def test_a_bar_stays_in_its_picture() -> None:
    for placed in range(0, 130, 7):
        svg = gather(placed, 128, 128, idle=True, waits=True).svg
        numbers = [float(one) for one in re.findall(r"[Mh](\d+(?:\.\d+)?)", svg)]
        assert max(numbers) <= WIDTH


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (Share("", "gpu", 32.0, 64.0, None, 32.0, 64.0, None), (100, 100, 100)),
        (Share("", "gpu", 64.0, 16.0, None, 0.0, None, None), (50, 0, None)),
        (Share("", "gpu", None, 5.0, None, 0.0, None, None), (200, 0, None)),
        (Share("", "gpu", 0.0, 0.0, None, 0.0, 0.0, None), (0, 0, None)),
        (Share("", "gpu", 8.0, 24.0, None, 16.0, 16.0, None), (66.67, 133.33, 66.67)),
    ],
)
def test_a_quota_is_used_then_borrowed(share: Share, drawn: tuple[float, float, float | None]) -> None:
    bar = quota_bar(share)
    assert (bar.used, bar.borrowed, bar.mark) == drawn
    assert bar.used + bar.borrowed <= QUOTA_WIDTH + 0.01


def test_a_histogram_has_a_column_for_each_number_of_free_gpus() -> None:
    room = Room("nvidia.com/gpu", 26, 40, 2, (1,), (26,), (26,), (), ((0, 2), (2, 1), (8, 3)), ())
    columns = histogram(room).columns
    assert [(one.free, one.nodes, one.kind) for one in columns if one.nodes] == [
        (0, 2, "none"), (2, 1, "part"), (8, 3, "whole"),
    ]  # fmt: skip
    assert len(columns) == 9
    assert max(one.x + one.width for one in columns) <= 720.5
