"""What an observer keeps is not looked through for garbage, and what it lets go is still freed."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from fleet.observer import garbage


class Part:
    def __init__(self) -> None:
        self.self = self


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """The interpreter as it comes, not as the run of the tests has set it."""
    threshold = gc.get_threshold()
    gc.unfreeze()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*threshold)
    gc.freeze()


def test_a_page_of_pods_is_read_without_a_look_for_garbage() -> None:
    garbage.begin()
    gc.collect()
    before = gc.get_stats()[0]["collections"]
    page: list[dict[str, str]] = [{} for _ in range(25_000)]
    assert len(page) == 25_000
    assert gc.get_stats()[0]["collections"] <= before + 1


def test_cycles_made_later_are_still_found() -> None:
    garbage.begin()
    kept = Part()
    garbage.set_aside()
    assert gc.get_freeze_count() > 0
    later = weakref.ref(Part())
    gc.collect()
    assert later() is None
    assert kept.self is kept
