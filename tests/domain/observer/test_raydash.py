"""Asking dashboards: beside everything else, ever more seldom where nobody answers, and never where one may not."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fleet.gangs.board import Board
from fleet.gangs.dashboards import Place
from fleet.observer.conditions import Conditions
from fleet.observer.raydash import ASK_EVERY, AT_ONCE, LONGEST_REST, OLD, RayAsker
from fleet.observer.session import Session
from fleet.ports.errors import TemporaryError
from fleet.ports.ray import RayReading
from tests.builders import TestClock
from tests.patience import until
from tests.unit.gangs.ray_scenes import RAY, a_ray_gang, ray_facts
from tests.unit.gangs.test_conditions_survey import board_of

pytestmark = pytest.mark.django_db
LAB = [ipaddress.ip_network("127.0.0.0/8")]


class Dashboards:
    """Every dashboard of the cluster; `dead` ones do not answer."""

    def __init__(self, clock: TestClock) -> None:
        self.clock = clock
        self.asked: list[tuple[str, str]] = []
        self.dead = False
        self.holds: Callable[[], None] = lambda: None

    def open(self, place: Place, ip: str) -> Any:
        self.asked.append((place.host, ip))
        return self

    def read(self) -> RayReading:
        self.holds()
        if self.dead:
            raise TemporaryError("The dashboard at llm cannot be reached.")
        return RayReading(self.clock.now(), "2.60.0", True)

    def log_tail(self, submission: str, lines: int = 1000) -> str:
        return ""


class Scene:
    def __init__(self, session: Session, clock: TestClock, address: str = "http://127.0.0.1:8299") -> None:
        self.clock, self.dashboards, self.conditions = clock, Dashboards(clock), Conditions()
        self.board: Board | None = board_of(a_ray_gang(ray_facts(address=address, head_ready=True)))
        self.meant = ["127.0.0.1"]
        self.asker = RayAsker(
            session, self.conditions, lambda: self.board, self.dashboards.open, LAB, lambda host, port: self.meant
        )

    def turn(self, seconds: float = 0) -> None:
        """One turn, and the looks that it began to their end."""
        self.clock.tick(seconds)
        self.asker.turn()
        until(lambda: not any(one.running for one in self.asker._asked.values()))
        self.asker._tell(frozenset(self.asker._asked))

    @property
    def stated(self) -> dict[str, str]:
        return {one["code"]: one["text"] for one in self.conditions.changed(0) or []}


@pytest.fixture
def scene(session: Session, clock: TestClock) -> Scene:
    return Scene(session, clock)


def test_a_dashboard_is_read_every_few_seconds(scene: Scene) -> None:
    scene.turn()
    assert scene.asker.readings()[RAY].at == scene.clock.now()
    scene.turn(ASK_EVERY / 2)
    assert scene.asker.readings()[RAY].at < scene.clock.now()
    scene.turn(ASK_EVERY / 2)
    assert scene.asker.readings()[RAY].at == scene.clock.now()
    assert scene.dashboards.asked == [("127.0.0.1", "127.0.0.1")], "its connection is kept"
    assert scene.stated == {}


def test_one_that_does_not_answer_is_asked_ever_more_seldom_and_said(scene: Scene) -> None:
    scene.turn()
    scene.dashboards.dead = True
    looks = []
    scene.dashboards.holds = lambda: looks.append(1)
    for _ in range(600):
        scene.turn(1)
    assert 600 / LONGEST_REST < len(looks) < 20
    assert "1 of 1 Ray dashboards are not read" in scene.stated["ray_dashboards"]
    assert scene.asker.readings() == {}, "an old reading is none"
    scene.dashboards.dead = False
    scene.turn(LONGEST_REST)
    assert scene.asker.readings() and scene.stated == {}


def test_a_reading_that_is_a_little_old_still_counts(scene: Scene) -> None:
    scene.turn()
    scene.clock.tick(OLD.total_seconds() - 1)
    assert scene.asker.readings()
    scene.clock.tick(2)
    assert not scene.asker.readings()


@pytest.mark.parametrize("meant", [["10.0.0.5"], ["169.254.169.254"], []])
def test_an_address_that_may_not_be_asked_is_not_and_that_is_said(scene: Scene, meant: list[str]) -> None:
    scene.turn()
    scene.dashboards.asked.clear()
    scene.meant = meant
    scene.turn(ASK_EVERY)
    assert scene.dashboards.asked == []
    assert "ray_addresses" in scene.stated and not scene.asker.readings()


def test_a_name_that_means_another_place_by_now_is_opened_there_anew(scene: Scene) -> None:
    scene.turn()
    scene.meant = ["127.0.0.2"]
    scene.turn(ASK_EVERY)
    assert scene.dashboards.asked == [("127.0.0.1", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")]


def test_nobody_is_asked_outside_of_a_cluster_where_nothing_is_allowed(session: Session, clock: TestClock) -> None:
    scene = Scene(session, clock)
    scene.asker = RayAsker(session, scene.conditions, lambda: scene.board, scene.dashboards.open, [])
    scene.turn()
    assert scene.dashboards.asked == [] and scene.stated == {}


def test_dashboards_that_hang_hold_up_neither_a_turn_nor_more_than_their_threads(
    session: Session, clock: TestClock
) -> None:
    import threading

    scene = Scene(session, clock)
    gang = a_ray_gang(ray_facts(address="http://127.0.0.1:8299", head_ready=True))
    scene.board = board_of(*(replace(gang, key=f"ray/RayCluster/train/c{n}") for n in range(20)))
    inside, free = threading.Semaphore(0), threading.Event()

    def hang() -> None:
        inside.release()
        free.wait(60)

    scene.dashboards.holds = hang
    scene.asker.turn()
    for _ in range(AT_ONCE):
        assert inside.acquire(timeout=60)
    clock.tick(60)
    scene.asker.turn()
    assert scene.asker.readings() == {}
    assert not inside.acquire(blocking=False), "no more are asked side by side, and none twice"
    free.set()
    until(lambda: len(scene.asker.readings()) == 20)
    scene.asker.close()


def test_a_gang_that_is_gone_is_forgotten(scene: Scene) -> None:
    scene.turn()
    scene.board = board_of()
    scene.turn(1)
    assert scene.asker.readings() == {} and scene.asker.dashboard_of(RAY) is None
