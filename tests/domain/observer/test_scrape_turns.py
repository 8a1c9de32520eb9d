"""Scrapes share the event loop with pushed kernel lines, and let them pass; and no exporter takes another's place."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from fleet.observer.scraping import AT_ONCE, SICK_AT_ONCE, Scraper
from fleet.observer.session import Session
from fleet.observer.world import Exporter
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.targets import Target
from tests.builders import TestClock
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.django_db


def test_answers_that_came_together_are_read_one_in_a_turn_of_the_loop(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, read_in = [0], []

    class Reading(Intake):
        def scraped(self, *told: object) -> int:
            read_in.append(turns[0])
            return 0

    async def at_once(self: Scraper, url: str) -> bytes:
        return b"up 1\n"

    async def counted() -> None:
        """As `Scraper.once`, beside somebody who counts the turns of the loop."""
        counting = asyncio.create_task(_count(turns))
        await scraper.once()
        counting.cancel()

    exporters = {(f"gpu-{i}", "dcgm"): Exporter(f"gpu-{i}", "dcgm", "http://10.0.0.1/") for i in range(50)}
    scraper = Scraper(session, Reading(Frame(), lambda name: name), lambda: exporters, lambda: 1, lambda: True)
    monkeypatch.setattr(Scraper, "_get", at_once)
    asyncio.run(counted())
    assert len(read_in) == 50
    assert len(set(read_in)) == 50


def exporters_on(nodes: int, job: str = "dcgm") -> dict[tuple[str, str], Exporter]:
    return {(f"n{i}", job): Exporter(f"n{i}", job, f"http://10.0.0.1/n{i}/") for i in range(nodes)}


class Fleet:
    """Exporters that answer at once, but for those that hang until the end of the test; what was asked and read."""

    def __init__(self, session: Session, nodes: int, hung: int = 0) -> None:
        self.asked: list[str] = []
        self.read: list[str] = []
        self.most_held = 0
        self.hangs = {f"http://10.0.0.1/n{i}/" for i in range(hung)}
        self.scraper = Scraper(session, self._reading(), lambda: exporters_on(nodes), lambda: 1, lambda: True)

    def _reading(self) -> Intake:
        fleet = self

        class Reading(Intake):
            def scraped(self, target: Target, *told: object) -> int:
                fleet.read.append(target.node)
                target.failures = 0
                return 0

        return Reading(Frame(), lambda name: name)

    async def get(self, url: str) -> bytes:
        self.asked.append(url)
        self.most_held = max(self.most_held, len(self.asked) - len(self.read))
        if url in self.hangs:
            await asyncio.Event().wait()
        return b"up 1\n"

    async def until(self, clock: TestClock, done: Callable[[], bool]) -> None:
        running = asyncio.create_task(self.scraper.run())
        for turn in range(int(PATIENCE / 0.02)):
            if done():
                break
            if turn < 30:  # less than an interval: nobody's second turn comes
                clock.tick(0.1)
            await asyncio.sleep(0.02)
        self.scraper.session.end("the test is over")
        await running


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fleet], None]:
    return lambda fleet: monkeypatch.setattr(Scraper, "_get", lambda self, url: fleet.get(url))


def test_no_more_answers_are_held_than_there_are_places(
    session: Session, clock: TestClock, ask: Callable[[Fleet], None]
) -> None:
    fleet = Fleet(session, 5 * AT_ONCE)
    ask(fleet)
    asyncio.run(fleet.until(clock, lambda: len(fleet.read) >= 5 * AT_ONCE))
    assert len(set(fleet.read)) == 5 * AT_ONCE
    assert fleet.most_held <= AT_ONCE


def test_exporters_that_hang_again_leave_half_of_the_places_to_the_others(
    session: Session, clock: TestClock, ask: Callable[[Fleet], None]
) -> None:
    fleet = Fleet(session, 4 * AT_ONCE, hung=2 * AT_ONCE)
    ask(fleet)
    for i in range(2 * AT_ONCE):
        fleet.scraper.intake.failed(fleet.scraper.intake.frame.target(f"n{i}", "dcgm", 15.0), "It hung before.")
    asyncio.run(fleet.until(clock, lambda: len(fleet.read) >= 2 * AT_ONCE))
    assert len(set(fleet.read)) == 2 * AT_ONCE
    assert len([url for url in fleet.asked if url in fleet.hangs]) <= SICK_AT_ONCE


def test_a_node_that_booted_is_asked_before_its_turn_and_once(
    session: Session, clock: TestClock, ask: Callable[[Fleet], None]
) -> None:
    fleet = Fleet(session, 2)
    ask(fleet)

    async def story() -> None:
        running = asyncio.create_task(fleet.scraper.run())
        while len(fleet.read) < 2:
            clock.tick(0.5)
            await asyncio.sleep(0.02)
        fleet.scraper.hurry(["n1"])
        await asyncio.to_thread(until, lambda: len(fleet.read) == 3)
        await asyncio.sleep(0.2)  # for a second time, which must not come
        session.end("the test is over")
        await running

    asyncio.run(story())
    assert sorted(fleet.read) == ["n0", "n1", "n1"]


async def _count(turns: list[int]) -> None:
    while True:
        turns[0] += 1
        await asyncio.sleep(0)
