"""The minute of a cluster in numbers, and how long rows of gangs are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from fleet.gangs import board, minutes, retention
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.fragmentation import whole_nodes
from fleet.gangs.diagnosis.rooms import Room, Rooms
from fleet.gangs.form import Gang
from fleet.gangs.models import Ending, GangCondition, GangMoment, GangRow, QueueMinute
from fleet.gangs.services import ENDINGS_KEPT, KEEP, MINUTES_KEPT
from fleet.inventory.models import Cluster
from tasks.engine import retain
from tests.builders import T0, a_cluster
from tests.gang_builders import later
from tests.unit.gangs.scenes import GPU, OUT, a_gang, a_room, a_scene

pytestmark = pytest.mark.django_db
DAY = timedelta(days=1)


def made(*gangs: Gang, rooms: tuple[Room, ...]) -> Board:
    return board.read({gang.key: gang for gang in gangs}, [], Rooms(rooms))


def test_a_minute_tells_what_works_what_is_held_for_nothing_and_who_waits() -> None:
    rooms = (a_room("gpu-0", used=8), a_room("gpu-1", used=4), a_room("gpu-2"), a_room("gpu-3", out=OUT))
    half = a_gang("half", 3, placed=1, created_at=T0)
    whole = a_gang("waits", 2, created_at=later(6))
    now = later(10)
    assert minutes.columns(made(half, whole, a_gang("runs", 1, placed=1), rooms=rooms), now) == {
        "gpus_total": 32, "gpus_out": 8, "gpus_used": 12, "gpus_idle": 8, "gangs_waiting": 2, "gpus_wanted": 40,
        "wait_median": 420.0, "wait_longest": 600.0, "full_nodes_free": 1, "full_nodes_packed": 1,
    }  # fmt: skip


def test_an_empty_cluster_has_a_minute_too() -> None:
    told = minutes.columns(made(rooms=()), T0)
    assert (told["gpus_total"], told["wait_median"], told["wait_longest"]) == (0, None, None)


def test_slices_of_gpus_are_no_gpus() -> None:
    mig = Room("gpu-0", (("nvidia.com/mig-1g.10gb", 7),))
    assert minutes.columns(made(rooms=(mig,)), T0)["gpus_total"] == 0


@pytest.mark.parametrize(
    ("used", "free", "packed"),
    [((0, 0, 0), 3, 3), ((8, 8, 8), 0, 0), ((1, 1, 1), 0, 2), ((4, 4, 1), 0, 1), ((8, 0, 0), 2, 2), ((5, 4, 0), 1, 1)],
)
def test_what_packing_would_free_is_counted_in_whole_nodes(used: tuple[int, ...], free: int, packed: int) -> None:
    starter, space = a_scene(*(a_room(f"n{n}", used=taken) for n, taken in enumerate(used)))
    assert whole_nodes(starter.rooms, space, GPU) == (free, packed)


def test_the_same_minute_is_written_once() -> None:
    cluster, told = a_cluster(), minutes.columns(made(rooms=()), T0)
    for _ in range(2):
        with transaction.atomic():
            minutes.store(cluster.pk, T0, told)
    assert QueueMinute.objects.count() == 1


# -- retention -----------------------------------------------------------------------------------------------------


def a_row(cluster: Cluster, key: str, **fields: Any) -> GangRow:
    return GangRow.objects.create(
        cluster=cluster, key=key, system="ray", kind="RayCluster", name=key, title=key, state="running",
        first_seen_at=T0, changed_at=T0, **fields,
    )  # fmt: skip


def a_moment(cluster: Cluster, key: str, age: timedelta) -> None:
    GangMoment.objects.create(cluster=cluster, gang_key=key, at=T0 - age, kind="state", what="running")


def a_condition(cluster: Cluster, about: str, age: timedelta | None) -> None:
    GangCondition.objects.create(
        cluster=cluster, gang_key="g", code="headroom_low", about=about, since=T0 - 99 * DAY, seen_at=T0,
        ended_at=None if age is None else T0 - age,
    )  # fmt: skip


def an_ending(cluster: Cluster, age: timedelta) -> None:
    Ending.objects.create(cluster=cluster, gang_key="g", title="RayJob g", at=T0 - age, status="Failed")


def test_what_is_too_old_goes_and_what_is_true_or_young_stays() -> None:
    cluster = a_cluster()
    told = minutes.columns(made(rooms=()), T0)
    for age in (MINUTES_KEPT + DAY, MINUTES_KEPT - DAY):
        with transaction.atomic():
            minutes.store(cluster.pk, T0 - age, told)
    a_row(cluster, "lives")
    a_row(cluster, "gone", gone_at=T0 - KEEP + DAY)
    a_row(cluster, "long-gone", gone_at=T0 - KEEP - DAY)
    for key in ("lives", "gone"):
        for age in (KEEP - DAY, KEEP + DAY, MINUTES_KEPT + DAY):
            a_moment(cluster, key, age)
    ended: dict[str, timedelta | None] = {"open": None, "young": KEEP - DAY, "old": KEEP + DAY}
    for about, ago in ended.items():
        a_condition(cluster, about, ago)
    for age in (ENDINGS_KEPT - DAY, ENDINGS_KEPT + DAY):
        an_ending(cluster, age)
    assert retention.retain(T0) == 1 + 1 + 3 + 1 + 1
    assert set(GangRow.objects.values_list("key", flat=True)) == {"lives", "gone"}
    assert sorted(GangMoment.objects.values_list("gang_key", flat=True)) == ["gone", "lives", "lives"]
    assert set(GangCondition.objects.values_list("about", flat=True)) == {"open", "young"}
    assert QueueMinute.objects.count() == 1 and Ending.objects.count() == 1
    assert retention.retain(T0) == 0


def test_much_goes_in_portions_and_the_rest_with_the_next_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "PORTION", 3)
    monkeypatch.setattr(retention, "PORTIONS", 2)
    cluster = a_cluster()
    for n in range(8):
        a_moment(cluster, f"g{n}", KEEP + DAY)
    assert (retention.retain(T0), retention.retain(T0), retention.retain(T0)) == (6, 2, 0)


def test_the_task_of_retention_takes_them(transactional_db: None) -> None:
    cluster = a_cluster()
    row = a_row(cluster, "gone", gone_at=timezone.now() - KEEP - DAY)
    retain()
    assert not GangRow.objects.filter(pk=row.pk).exists()
