"""Conditions over time: opened once, ended when they are over, and never ended because nobody could look."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from fleet.bus.models import Outbox
from fleet.gangs.conditionrows import REWRITE, Changes, ConditionLedger
from fleet.gangs.conditions.condition import found
from fleet.gangs.models import GangCondition, GangMoment, GangRow
from fleet.health.models import Incident
from fleet.inventory.models import Node
from fleet.observer.gangwatch import LOOK_EVERY, NAMED_AT_MOST, UNKNOWN_FOR, GangWatch
from fleet.observer.session import Session
from fleet.ports.ray import RayReading
from fleet.readmodels.gang_conditions import of_gangs
from fleet.readmodels.gang_sick import sick
from tests.builders import T0, TestClock, an_incident
from tests.gang_builders import a_member, later
from tests.unit.gangs.ray_scenes import RAY, a_group, a_placement, a_ray_gang, a_ray_job, a_reading, ray_facts
from tests.unit.gangs.test_conditions_survey import board_of, job_gang

pytestmark = pytest.mark.django_db
STALE = {"placement_groups": (a_placement("old", detached=True, name="old"),), "jobs": (a_ray_job(),)}


class Watched:
    """A watch with the readings and faults that a test gives it, and a row for each gang."""

    def __init__(self, session: Session, clock: TestClock) -> None:
        self.session, self.clock = session, clock
        self.readings: dict[str, RayReading] = {}
        self.sick: dict[str, str] = {}
        self.starved: set[str] = set()
        self.watch = self.begin()

    def begin(self) -> GangWatch:
        """As after a start of the observer."""
        self.watch = GangWatch(self.session, lambda: self.readings, lambda: self.sick, self._hear)
        return self.watch

    def _hear(self, keys: Iterable[str]) -> None:
        self.starved = set(keys)

    def look(self, *gangs: Any, seconds: float = LOOK_EVERY) -> bool:
        now = self.clock.tick(seconds)
        if not self.watch.look(board_of(*gangs), now):
            return False
        with transaction.atomic():
            self.watch.store(now)
        self.watch.settle(now)
        return True


@pytest.fixture
def watched(session: Session, clock: TestClock) -> Watched:
    return Watched(session, clock)


def rows(**filters: Any) -> list[tuple[str, str, bool]]:
    found_rows = GangCondition.objects.filter(**filters).order_by("since", "code", "about")
    return [(row.code, row.about, row.ended_at is not None) for row in found_rows]


def codes() -> set[str]:
    return {code for code, _, over in rows() if not over}


def a_row(session: Session, key: str = RAY) -> GangRow:
    return GangRow.objects.create(
        cluster_id=session.cluster_id, key=key, system="ray", kind="RayCluster", name="llm", title="RayCluster llm",
        state="running", first_seen_at=T0, changed_at=T0,
    )  # fmt: skip


EXACT = a_ray_gang(ray_facts(a_group("gpu", 4, maximum=4)))
ROOMY = a_ray_gang()


def test_a_condition_is_opened_once_and_ended_once_with_a_line_for_each(watched: Watched) -> None:
    assert watched.look(EXACT)
    began = watched.clock.now()
    assert "headroom_exact" in codes()
    for _ in range(3):
        assert not watched.look(EXACT), "nothing is written while nothing changes"
    assert watched.look(ROOMY)
    row = GangCondition.objects.get(code="headroom_exact")
    assert (row.since, row.ended_at, row.about, row.gang_key) == (began, watched.clock.now(), "gpu", RAY)
    told = GangMoment.objects.filter(what="headroom_exact").order_by("at").values_list("kind", "facts")
    assert [(kind, facts.get("ended", False)) for kind, facts in told] == [("condition", False), ("condition", True)]
    assert watched.look(EXACT)
    assert GangCondition.objects.filter(code="headroom_exact").count() == 2, "what comes back is another one"


def test_live_pages_are_told_which_gang_and_of_many_that_many(watched: Watched) -> None:
    watched.look(EXACT)
    assert list(Outbox.objects.values_list("topic", "ref")) == [("gang", RAY)]
    Outbox.objects.all().delete()
    many = [replace(EXACT, key=f"ray/RayCluster/train/c{n}") for n in range(NAMED_AT_MOST + 1)]
    watched.look(EXACT, *many)
    assert list(Outbox.objects.values_list("topic", "ref")) == [("gang", "")]


def test_pages_can_read_what_was_written(watched: Watched, session: Session) -> None:
    watched.look(EXACT)
    shown = of_gangs([(session.cluster_id, RAY)])[session.cluster_id, RAY]
    exact = next(one for one in shown if one.told.code == "headroom_exact")
    assert exact.severity == "warning" and "gpu" in exact.told.sentence


def test_a_restart_finds_the_rows_it_left(watched: Watched) -> None:
    watched.look(EXACT)
    before = rows()
    watched.begin()
    watched.look(EXACT)
    assert rows() == before
    watched.begin()
    watched.look(ROOMY)
    assert ("headroom_exact", "gpu", True) in rows()


def test_what_a_dashboard_showed_stays_while_it_does_not_answer_and_ends_when_it_shows_better(watched: Watched) -> None:
    watched.readings = {RAY: a_reading(0, **STALE)}
    watched.look(ROOMY)
    assert "placement_stale" in codes()
    for absent in ({}, {RAY: a_reading(1, unread=("actors",))}, {RAY: a_reading(1, unread=("placement_groups",))}):
        watched.readings = absent
        watched.look(ROOMY)
        assert "placement_stale" in codes()
    watched.begin()
    watched.look(ROOMY)
    assert "placement_stale" in codes(), "nor is it ended by a start before the first answer"
    watched.readings = {RAY: a_reading(2, jobs=(a_ray_job(),))}
    watched.look(ROOMY)
    assert "placement_stale" not in codes()


def test_what_nobody_can_look_at_is_not_believed_for_ever_nor_of_a_gang_that_is_gone(watched: Watched) -> None:
    watched.readings = {RAY: a_reading(0, **STALE)}
    watched.look(ROOMY)
    watched.readings = {}
    watched.look(ROOMY, seconds=UNKNOWN_FOR.total_seconds() + 1)
    assert "placement_stale" not in codes()
    watched.readings = {RAY: a_reading(0, **STALE)}
    watched.look(ROOMY)
    watched.readings = {}
    watched.look()
    assert codes() == set()


def test_a_placement_group_that_waits_starves_the_gang_that_seems_to_run(watched: Watched) -> None:
    waits = (a_placement("pg", "PENDING", name="llm"),)
    for minute in (0, 1):
        watched.readings = {RAY: a_reading(minute, placement_groups=waits)}
        watched.look(ROOMY)
    assert "placement_pending" in codes() and watched.starved == {RAY}
    watched.readings = {RAY: a_reading(2)}
    watched.look(ROOMY)
    assert watched.starved == set() and "placement_pending" not in codes()


def test_the_seconds_that_it_waits_are_not_written_at_each_look(watched: Watched) -> None:
    waits = (a_placement("pg", "PENDING", name="llm"),)
    written = []
    for step in range(12):
        watched.readings = {RAY: a_reading(step * LOOK_EVERY / 60, placement_groups=waits)}
        written.append(watched.look(ROOMY))
    assert sum(written) <= 3 + 12 * LOOK_EVERY / REWRITE.total_seconds()
    assert GangCondition.objects.get(code="placement_pending").facts["waits"] >= 20


def test_a_head_that_is_down_is_counted_from_the_first_sight_over_restarts(watched: Watched, session: Session) -> None:
    a_row(session)
    down = a_ray_gang(ray_facts(head_ready=False, head_changed_at=None))
    watched.look(down)
    first = watched.clock.now()
    assert GangRow.objects.get().head_down_since == first
    watched.begin()
    watched.look(down, seconds=310)
    row = GangCondition.objects.get(code="head_down")
    assert row.facts["down"] == 310 and row.facts["severity"] == "warning"
    watched.look(down, seconds=200)
    row.refresh_from_db()
    assert row.facts["severity"] == "critical", "a graver one is written at once"
    watched.look(ROOMY)
    assert GangRow.objects.get().head_down_since is None and "head_down" not in codes()


def test_an_autoscaler_that_swings_is_seen_by_its_spec_and_a_start_does_not_end_it(watched: Watched) -> None:
    def scaled(replicas: int) -> Any:
        return a_ray_gang(ray_facts(a_group("gpu", replicas, minimum=0, maximum=9), autoscaling=True))

    for replicas in (4, 2, 4, 2, 4):
        watched.look(scaled(replicas), seconds=30)
    assert "autoscaler_swings" in codes()
    watched.begin()
    watched.look(scaled(4))
    assert "autoscaler_swings" in codes(), "its window has just begun anew"
    watched.look(scaled(4), seconds=601)
    assert "autoscaler_swings" not in codes()


def test_workers_that_live_shortly_while_a_group_waits_are_seen_by_their_pods(watched: Watched) -> None:
    facts = ray_facts(a_group("gpu", 1, minimum=0, maximum=9, to_delete=1), autoscaling=True)
    waits = (a_placement("pg", "PENDING"),)
    for n in range(5):
        watched.readings = {RAY: replace(a_reading(0, placement_groups=waits), at=watched.clock.now())}
        made = watched.clock.now()
        worker = a_member(f"w{n}", RAY, node="n1", role="gpu", created_at=made)
        watched.look(a_ray_gang(facts, members=[worker]), seconds=20)
    assert "autoscaler_churns" in codes()


def test_a_node_in_an_open_fault_is_told_of_gangs_that_say_they_are_ready(watched: Watched, session: Session) -> None:
    node = Node.objects.get(name="gpu-r01-01")
    fault = an_incident(node, severity="unhealthy", title="Xid 79 on GPU 3")
    an_incident(Node.objects.get(name="gpu-r01-02"), severity="degraded")
    assert sick(session.cluster_id) == {"gpu-r01-01": "Xid 79 on GPU 3"}
    plain = job_gang()
    lone = replace(plain, objects=(), nodes=("gpu-r01-01",), members=(a_member("w", node="gpu-r01-01"),))
    watched.look(lone)
    assert "sick_node" not in codes()
    watched.sick = sick(session.cluster_id)
    watched.look(lone, seconds=60)
    assert "sick_node" in codes(), "its objects and pods did not change, its node did"
    Incident.objects.filter(pk=fault.pk).update(state=Incident.RESOLVED)
    watched.sick = sick(session.cluster_id)
    watched.look(lone, seconds=60)
    assert "sick_node" not in codes()


def test_many_conditions_cost_as_many_statements_as_one(session: Session) -> None:
    def write(many: int) -> int:
        ledger = ConditionLedger(session.cluster_id)
        opened = {one.same: one for one in (found("headroom_low", f"g{n}", "notice") for n in range(many))}
        with CaptureQueriesContext(connection) as queries, transaction.atomic():
            made = ledger.store(Changes(opened=opened), T0)
        ledger.settle(Changes(opened=opened), made, T0)
        with CaptureQueriesContext(connection) as more, transaction.atomic():
            ledger.store(Changes(moved=opened), later(1))
        with CaptureQueriesContext(connection) as ended, transaction.atomic():
            ledger.store(Changes(ended=tuple(opened)), later(2))
        return len(queries) + len(more) + len(ended)

    assert write(40) == write(1)


def test_outside_of_the_fences_transaction_nothing_is_written(transactional_db: None) -> None:
    with pytest.raises(RuntimeError):
        ConditionLedger(1).store(Changes(), T0)
