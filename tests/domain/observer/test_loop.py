"""The observer's threads: how often they turn, and that one bad turn is not the last."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from fleet.observer.session import Loop, Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def started(session: Session) -> Iterator[Callable[[Loop], Loop]]:
    loops: list[Loop] = []

    def start(loop: Loop) -> Loop:
        loops.append(loop)
        loop.start()
        return loop

    yield start
    session.end("The test is over.")
    for loop in loops:
        loop.wake.set()
        loop.join(5)


def until(turns: int, loop: Loop) -> bool:
    end = time.monotonic() + 5
    while loop.turns < turns and time.monotonic() < end:
        time.sleep(0.005)
    return loop.turns >= turns


def test_one_that_is_woken_turns_at_once(session: Session, started: Callable[[Loop], Loop]) -> None:
    loop = started(Loop(session, "cycle", lambda: None, every=60.0))
    for turn in range(1, 4):
        assert until(turn, loop)
        loop.wake.set()


def test_one_that_is_woken_without_a_pause_rests_between_its_turns_and_misses_no_call(
    session: Session, started: Callable[[Loop], Loop]
) -> None:
    loop = started(Loop(session, "cycle", lambda: None, every=60.0, rest=0.1))
    assert until(1, loop)
    began = time.monotonic()
    while time.monotonic() - began < 0.35:
        loop.wake.set()
        time.sleep(0.005)
    assert loop.turns <= 1 + 4
    last = loop.turns
    loop.wake.set()
    assert until(last + 1, loop)


def test_a_turn_that_fails_is_not_the_last(session: Session, started: Callable[[Loop], Loop]) -> None:
    failed: list[bool] = []

    def turn() -> None:
        if not failed:
            failed.append(True)
            raise ValueError("unforeseen")

    loop = started(Loop(session, "cycle", turn, every=0.02))
    assert until(2, loop) and loop.failures == 1
