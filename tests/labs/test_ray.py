"""A real Ray's placement groups: the one that waits and the one that outlived its job, found and said in words."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from django.db import transaction

from fleet.adapters import ray
from fleet.gangs import board
from fleet.gangs.conditions.condition import Condition
from fleet.gangs.conditions.placement import Waits
from fleet.gangs.conditions.survey import Evidence, survey
from fleet.gangs.dashboards import Place
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.models import GangCondition
from fleet.inventory import lease
from fleet.observer.conditions import Conditions
from fleet.observer.gangwatch import GangWatch
from fleet.observer.raydash import RayAsker
from fleet.observer.session import Session
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError
from fleet.ports.ray import RayDashboard, RayReading
from fleet.readmodels.gang_words import told
from tests.builders import a_cluster
from tests.labs.ray import Ray, python, running
from tests.patience import until
from tests.unit.gangs.ray_scenes import a_group, a_ray_gang, ray_facts

GANG = a_ray_gang(ray_facts(a_group("gpu", 2, gpus_limit=8, maximum=2)), placed=3)


@pytest.fixture(scope="module")
def lab() -> Iterator[Ray]:
    where = python()
    if where is None:
        pytest.skip("Ray is not installed: pip install 'ray[default]', and name its Python in MUSTER_TEST_RAY_PYTHON")
    with running(where) as found:
        yield found


def read(lab: Ray) -> RayReading:
    return ray.dashboard(ray.Connection(lab.url, timeout=10.0, patience=30.0)).read()


def look(lab: Ray, shows: Callable[[RayReading], bool]) -> RayReading:
    """The first reading that shows it: Ray tells of a change after some seconds."""
    seen: list[RayReading] = []

    def shown() -> bool:
        seen.append(read(lab))
        return shows(seen[-1])

    until(shown, every=0.5)
    return seen[-1]


def found(reading: RayReading, waits: Waits) -> dict[tuple[str, str], Condition]:
    told_board = board.read({GANG.key: GANG}, [], Rooms([]))
    evidence = Evidence(reading.at, readings={GANG.key: reading}, waits=waits)
    return {(one.code, one.about): one for one in survey(told_board, evidence)}


def test_what_waits_and_what_outlived_its_job_is_found_and_explained(lab: Ray) -> None:
    waits = Waits()
    with lab.driver():
        reading = look(lab, one_waits)
        assert reading.unread == ()
        assert (reading.version[:2], reading.healthy, reading.gpus_total) == ("2.", True, 16.0)
        assert sorted(node.gpus_total for node in reading.nodes if node.alive) == [0.0, 8.0, 8.0]
        assert (
            found(reading, waits).keys() & {("placement_pending", "llm-4x8"), ("placement_stale", "small-ok")} == set()
        )
        later = replace(reading, at=reading.at + timedelta(seconds=30))  # nothing changed for half a minute
        conditions = found(later, waits)
        pending = conditions["placement_pending", "llm-4x8"]
        assert pending.values["gpus"] == 32.0 and pending.values["waits"] == 30
        assert ("placement_pending", "pack-2x8") in conditions
        assert ("placement_stale", "small-ok") not in conditions, "its driver lives"
        assert reading.largest_ask == 16.0
        assert any(one.code == "gpus_infeasible" for one in conditions.values())
        assert "llm-4x8" in told(pending).sentence
    after = look(lab, lambda one: all(job.over for job in one.jobs) and one.largest_ask != 16.0)
    conditions = found(after, waits)
    stale = conditions["placement_stale", "small-ok"]
    assert stale.values["gpus"] == 8.0 and stale.values["status"] == "SUCCEEDED"
    assert ("placement_stale", "llm-4x8") in conditions, "a detached one that never gathered is left over, too"
    assert ("placement_stale", "pack-2x8") not in conditions, "Ray removed what was not detached"
    assert after.gpus_reserved_unused is not None and after.gpus_reserved_unused >= 8.0
    assert "small-ok" in told(stale).sentence and told(stale).remedy


def one_waits(reading: RayReading) -> bool:
    waiting = {one.name for one in reading.placement_groups if one.state == "PENDING"}
    return reading.largest_ask == 16.0 and "llm-4x8" in waiting


@pytest.mark.django_db
def test_the_observer_names_them_in_rows_and_keeps_what_a_failed_driver_wrote(lab: Ray, tmp_path: Path) -> None:
    cluster = a_cluster()
    epoch = lease.take(cluster.pk, "here", SYSTEM_CLOCK.now())
    assert epoch is not None
    session = Session(cluster, epoch, SYSTEM_CLOCK, tmp_path, 15.0)
    facts = ray_facts(a_group("gpu", 2, gpus_limit=8, maximum=2), address=lab.url, head_ready=True)
    gang = a_ray_gang(facts, placed=3)
    made = board.read({gang.key: gang}, [], Rooms([]))
    asker = RayAsker(session, Conditions(), lambda: made, _opened, [ip_network("127.0.0.0/8")])
    watch = GangWatch(session, asker.readings, dict, lambda keys: None)

    def open_ones() -> dict[tuple[str, str], GangCondition]:
        asker.turn()
        now = SYSTEM_CLOCK.now()
        if watch.look(made, now):
            with transaction.atomic():
                watch.store(now)
            watch.settle(now)
        return {(row.code, row.about): row for row in GangCondition.objects.filter(ended_at=None)}

    with lab.driver("-2"):
        began = time.monotonic()
        until(lambda: ("placement_pending", "llm-4x8-2") in open_ones(), every=0.5)
        pending = time.monotonic() - began
    began = time.monotonic()
    until(lambda: ("placement_stale", "small-ok-2") in open_ones(), every=0.5)
    stale = time.monotonic() - began
    print(f"named after {pending:.1f} s (pending; 20 s are its grace) and {stale:.1f} s (stale)")
    assert pending < 45 and stale < 30
    asker.close()
    submission = lab.submit("import sys; print('step 1'); print('CUDA error', file=sys.stderr); sys.exit(3)")
    dashboard = ray.dashboard(ray.Connection(lab.url, timeout=10.0, patience=30.0))
    failed = (submission, "FAILED")
    until(lambda: failed in {(one.submission, one.status) for one in dashboard.read().jobs}, every=1)
    told = dashboard.log_tail(submission, 100)
    assert "step 1" in told and "CUDA error" in told and "\x00" not in told
    assert len(dashboard.log_tail(submission, 1).splitlines()) == 1
    with pytest.raises(PortError):
        dashboard.log_tail("raysubmit_that_never_was")


def _opened(place: Place, ip: str) -> RayDashboard:
    return ray.dashboard(ray.Connection(place.url, ip, timeout=10.0, patience=30.0))
