"""Scrapes share the event loop with pushed kernel lines, and let them pass."""

from __future__ import annotations

import asyncio

import pytest

from fleet.observer.scraping import Scraper
from fleet.observer.session import Session
from fleet.observer.world import Exporter
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake

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


async def _count(turns: list[int]) -> None:
    while True:
        turns[0] += 1
        await asyncio.sleep(0)
