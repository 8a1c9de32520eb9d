"""A fatal line goes before whatever computes, and starves nobody."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from django.db import transaction

from fleet.observer import rightofway
from fleet.observer.rightofway import RightOfWay
from fleet.ports.clock import SYSTEM_CLOCK
from tests.builders import TestClock


def in_loop(way: RightOfWay) -> Callable[[], None]:
    return lambda: asyncio.run(way.give_in_loop())


@pytest.fixture(params=["a thread", "the event loop"])
def give(request: pytest.FixtureRequest, way: RightOfWay) -> Callable[[], None]:
    return way.give if request.param == "a thread" else in_loop(way)


@pytest.fixture
def way() -> RightOfWay:
    return RightOfWay(SYSTEM_CLOCK)


@pytest.fixture
def under_way(way: RightOfWay) -> Iterator[Callable[[], None]]:
    """A line that another thread is committing, until it is told to end."""
    began, over = threading.Event(), threading.Event()

    def lane() -> None:
        with way.taken():
            began.set()
            over.wait(5)

    thread = threading.Thread(target=lane)
    thread.start()
    began.wait(5)
    yield over.set
    over.set()
    thread.join()


def took(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_nobody_waits_where_no_line_is_under_way(give: Callable[[], None]) -> None:
    assert took(give) < 0.05


def test_whoever_computes_waits_until_the_line_is_committed(
    give: Callable[[], None], under_way: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rightofway, "MOST", 5.0)
    threading.Timer(0.05, under_way).start()
    assert 0.03 < took(give) < 2.0


def test_a_storm_of_lines_leaves_the_others_half_of_their_time(
    give: Callable[[], None], under_way: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rightofway, "MOST", 0.1)
    assert took(give) >= 0.09, "it waits, and not for ever"
    assert took(give) < 0.05, "and then works for as long as it waited"
    time.sleep(0.15)
    assert took(give) >= 0.09


@pytest.mark.django_db
def test_nobody_waits_in_a_transaction_whose_locks_the_line_may_need(
    way: RightOfWay, under_way: Callable[[], None]
) -> None:
    with transaction.atomic():
        assert took(way.give) < 0.05


def test_a_line_that_fails_gives_the_way_back(clock: TestClock) -> None:
    way = RightOfWay(clock)
    with pytest.raises(ValueError, match="judged"), way.taken():
        raise ValueError("it cannot be judged")
    assert took(way.give) < 0.05
