"""One turn of the gangs: what is written together, and what a turn without news costs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.gangs.board import Board
from fleet.gangs.models import GangCondition, GangRow
from fleet.inventory import lease
from fleet.observer.conditions import Conditions
from fleet.observer.gangminutes import GangMinutes
from fleet.observer.gangs import PATIENCE, Gangs
from fleet.observer.gangwatch import LOOK_EVERY, GangWatch
from fleet.observer.session import Session, Stopping
from fleet.observer.world import World
from fleet.ports.cluster import Change
from fleet.ports.errors import PermanentError, TemporaryError
from fleet.ports.gangs import Reading, Spoken, System
from tests.builders import T0, TestClock
from tests.gang_builders import an_object
from tests.unit.gangs.ray_scenes import a_cluster_object, a_group, ray_facts

pytestmark = pytest.mark.django_db


@pytest.fixture
def gangs(session: Session) -> Gangs:
    world = World()
    world.nodes_synced.set()
    found = Gangs(session, world, Conditions(), lambda: None, list, dict)
    found.poll()  # of nobody
    found.pods_listed.set()
    found.onlookers = [GangWatch(session, dict, dict, found.starved)]
    return found


def speak(gangs: Gangs, one: Any) -> None:
    gangs.spoken_change("rayclusters", Change("added", Spoken(one.ref.key, (one,))))


EXACT = ray_facts(a_group("gpu", 4, maximum=4))


def test_a_gang_and_its_conditions_come_together(gangs: Gangs) -> None:
    speak(gangs, a_cluster_object(EXACT))
    gangs.turn()
    assert GangRow.objects.get().title == "RayCluster llm"
    assert "headroom_exact" in set(GangCondition.objects.values_list("code", flat=True))


def test_a_turn_without_news_asks_and_writes_nothing(gangs: Gangs, clock: TestClock) -> None:
    speak(gangs, a_cluster_object(EXACT))
    gangs.turn()
    for _ in range(3):
        clock.tick(LOOK_EVERY)
        with CaptureQueriesContext(connection) as queries:
            gangs.turn()
        assert len(queries) == 0


class Asked:
    """A scheduler that is asked, and answers or not."""

    system: System = "yunikorn"

    def __init__(self) -> None:
        self.away = False

    def read(self) -> Reading:
        if self.away:
            raise TemporaryError("YuniKorn cannot be reached.")
        return Reading(T0, (an_object("yunikorn", "llm", wanted=2),))


def test_the_first_answer_of_who_is_asked_is_waited_for_and_the_last_one_is_kept(
    session: Session, clock: TestClock
) -> None:
    world, asked, stated = World(), Asked(), Conditions()
    world.nodes_synced.set()
    gangs = Gangs(session, world, stated, lambda: None, lambda: [asked], dict)
    gangs.pods_listed.set()
    asked.away = True
    gangs.turn()
    gangs.poll()
    gangs.turn()
    assert not GangRow.objects.exists(), "what a late answer would tell is not called gone before"
    assert [one["code"] for one in stated.changed(0) or []] == ["gangs_yunikorn"]
    asked.away = False
    gangs.poll()
    gangs.turn()
    assert GangRow.objects.get().gone_at is None and stated.changed(0) == []
    asked.away = True
    gangs.poll()
    clock.tick(60)
    gangs.turn()
    assert GangRow.objects.get().gone_at is None


def test_who_never_answers_does_not_hold_up_the_others_for_ever(session: Session, clock: TestClock) -> None:
    world, asked = World(), Asked()
    world.nodes_synced.set()
    gangs = Gangs(session, world, Conditions(), lambda: None, lambda: [asked], dict)
    gangs.pods_listed.set()
    asked.away = True
    speak(gangs, a_cluster_object(EXACT))
    gangs.poll()
    gangs.turn()
    assert not GangRow.objects.exists()
    clock.tick(PATIENCE + 1)
    gangs.turn()
    assert GangRow.objects.get().system == "ray"


def test_an_onlooker_that_fails_takes_nobody_with_it(gangs: Gangs) -> None:
    class Broken(GangMinutes):
        def look(self, board: Board, now: datetime) -> bool:
            raise ZeroDivisionError

    gangs.onlookers.insert(0, Broken(gangs._session))
    speak(gangs, a_cluster_object(EXACT))
    gangs.turn()
    assert GangRow.objects.exists() and GangCondition.objects.exists()


def test_whoever_lost_the_lease_writes_neither(gangs: Gangs, session: Session, clock: TestClock) -> None:
    speak(gangs, a_cluster_object(EXACT))
    lease.release(session.cluster_id, session.epoch)
    assert lease.take(session.cluster_id, "there", T0) is not None
    with pytest.raises(Stopping):
        gangs.turn()
    assert not GangRow.objects.exists() and not GangCondition.objects.exists()


def test_a_gang_that_is_gone_takes_its_conditions_along(gangs: Gangs, clock: TestClock) -> None:
    speak(gangs, a_cluster_object(EXACT))
    gangs.turn()
    clock.tick(LOOK_EVERY)
    gangs.spoken_change("rayclusters", Change("deleted", Spoken(a_cluster_object(EXACT).ref.key)))
    speak(gangs, an_object("jobset", "other", wanted=1))
    gangs.turn()
    assert GangRow.objects.get(system="ray").gone_at == clock.now()
    assert not GangCondition.objects.filter(ended_at=None, gang_key__startswith="ray/").exists()


def test_polls_that_cannot_be_made_are_stated_and_hold_up_nobody_for_long(session: Session, clock: TestClock) -> None:
    def broken() -> list[Asked]:
        raise PermanentError("The kubeconfig does not exist.", code="kubeconfig")

    world, stated = World(), Conditions()
    world.nodes_synced.set()
    gangs = Gangs(session, world, stated, lambda: None, broken, dict)
    gangs.pods_listed.set()
    gangs.poll()
    gangs.turn()
    assert [one["code"] for one in stated.changed(0) or []] == ["gang_polls"] and gangs.board is None
    clock.tick(PATIENCE + 1)
    gangs.turn()
    assert gangs.board is not None
