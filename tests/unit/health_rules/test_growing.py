"""The frame grows while rules look: scrapes go on in another thread, and more of them where rules let lines pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fleet.telemetry.columns import Columns
from tests.unit.health_rules.world import World


class _Arriving(Columns):
    """Whoever reads how many there are is told the truth of that moment; then somebody adds more."""

    come: Callable[[], None]

    @property
    def size(self) -> int:
        told: int = self.__dict__["size"]
        self.come()
        return told

    @size.setter
    def size(self, value: int) -> None:
        self.__dict__["size"] = value


@contextmanager
def arrivals(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """After each look at a size or at the rows of a metric a new node's exporters answer for the first time."""
    came: list[str] = []
    busy = False

    def come() -> None:
        nonlocal busy
        if busy:
            return
        busy = True
        name = f"new-{len(came)}"
        came.append(name)
        for job, body in (("dcgm-exporter", world._dcgm(name)), ("node-exporter", world._node(name))):
            world.intake.scraped(world.frame.target(name, job, 15.0), body, world.mono, world.now.timestamp())
        busy = False

    def rows(metric: str) -> Any:
        found = looked_up(metric)
        come()
        return found

    looked_up, frame = world.frame.rows, world.frame
    monkeypatch.setattr(_Arriving, "come", staticmethod(come), raising=False)
    monkeypatch.setattr(frame, "rows", rows)
    for columns in (frame.r, frame.d, frame.t):
        monkeypatch.setattr(columns, "__class__", _Arriving)
    yield came


def test_no_rule_stumbles_over_what_comes_while_it_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(nodes=("n1", "n2"))
    world.give(1, SLOWDOWN_TEMP=50.0)
    world.gone.add(("n1", 5))
    for _ in range(2):
        world.scrape()
    world.pass_time(15.0)
    with arrivals(world, monkeypatch) as came:
        world.cycle()
        world.verdict()
    assert len(came) > 20, "nothing came while they looked"


def test_a_lost_gpu_is_found_while_others_come(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.scrape()
    world.gone.add(("n1", 5))
    world.scrape(cycle=False)
    world.scrape(cycle=False)
    with arrivals(world, monkeypatch):
        assert [edge.cause for edge in world.cycle()] == ["gpu-lost"]
