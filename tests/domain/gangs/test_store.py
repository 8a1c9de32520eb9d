"""Gangs in rows: what changed is written, what is gone is kept, what was held idle is added up."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from fleet.gangs import board, rows, services
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.form import Gang
from fleet.gangs.models import GangMoment, GangRow, QueueRow
from fleet.gangs.services import Columns, Ledger
from fleet.inventory.models import Cluster
from fleet.ports.gangs import QueueObject, Quota, Ref
from tests.builders import T0, a_cluster
from tests.unit.gangs.scenes import OUT, a_gang, a_room

pytestmark = pytest.mark.django_db
QUEUE = QueueObject(Ref("volcano", "Queue", "", "q"), quotas=(Quota("", "nvidia.com/gpu", guaranteed=16.0, used=8.0),))


@pytest.fixture
def cluster() -> Cluster:
    return a_cluster()


def made(*gangs: Gang) -> tuple[Board, dict[str, Columns], dict[str, Columns]]:
    told = board.read({gang.key: gang for gang in gangs}, [QUEUE], Rooms([a_room("a", out=OUT)]))
    columns: dict[str, Columns] = {
        key: rows.gang_columns(gang, told.reasons.get(key), told.queue_keys[key], told.positions.get(key))
        for key, gang in told.gangs.items()
    }
    return told, columns, {QUEUE.ref.key: rows.queue_columns(QUEUE)}


def write(ledger: Ledger, minutes: float, *gangs: Gang) -> int:
    _, columns, queues = made(*gangs)
    now = T0 + timedelta(minutes=minutes)
    with transaction.atomic():
        written = services.store(ledger, columns, queues, now)
    services.settle(ledger, columns, queues, now)
    return written


def test_a_gang_that_waits_is_a_row_with_its_reason_and_the_node_to_blame(cluster: Cluster) -> None:
    write(Ledger(cluster.pk), 0, a_gang("llm", 1, queue="q"))
    row = GangRow.objects.get()
    assert (row.title, row.state, row.reason_code, row.queue_key) == (
        "PodGroup llm", "waiting", "NODE_UNHEALTHY", QUEUE.ref.key,
    )  # fmt: skip
    assert [one["node"] for one in row.blockers] == ["a"]
    assert QueueRow.objects.get().quotas[0]["guaranteed"] == 16.0


def test_what_did_not_change_is_not_written_again(cluster: Cluster) -> None:
    ledger, gang = Ledger(cluster.pk), a_gang("llm", 1, queue="q")
    write(ledger, 0, gang)
    assert write(ledger, 1, gang) == 0


def test_many_gangs_cost_as_many_statements_as_one(cluster: Cluster) -> None:
    with CaptureQueriesContext(connection) as one:
        write(Ledger(cluster.pk), 0, a_gang("one", 1))
    with CaptureQueriesContext(connection) as many:
        write(Ledger(cluster.pk), 0, *(a_gang(f"g{n}", 1) for n in range(40)))
    assert len(many) == len(one)


def test_gpus_held_for_nothing_are_added_up_over_time(cluster: Cluster) -> None:
    ledger = Ledger(cluster.pk)
    write(ledger, 0, a_gang("llm", 2, placed=1))
    write(ledger, 2, a_gang("llm", 3, placed=2))
    write(ledger, 4, a_gang("llm", 2, placed=2))
    row = GangRow.objects.get()
    assert (row.gpus_held_idle, row.idle_since, row.idle_seconds) == (0, None, (8 + 16) * 120.0)


def test_after_a_long_look_away_only_what_was_idle_at_both_ends_counts(cluster: Cluster) -> None:
    write(Ledger(cluster.pk), 0, a_gang("llm", 3, placed=2))
    again = Ledger(cluster.pk)
    again.load()
    write(again, 60, a_gang("llm", 3, placed=1))
    assert GangRow.objects.get().idle_seconds == 8 * 3600.0


def test_a_gang_that_is_gone_keeps_its_row_and_may_come_back(cluster: Cluster) -> None:
    ledger, gang = Ledger(cluster.pk), a_gang("llm", 1, placed=1)
    write(ledger, 0, gang)
    write(ledger, 1)
    gone = GangRow.objects.get()
    assert (gone.gone_at, gone.gpus_held) == (T0 + timedelta(minutes=1), 0)
    write(ledger, 2, gang)
    assert GangRow.objects.get().gone_at is None


def test_the_timeline_tells_each_new_state_and_reason_once(cluster: Cluster) -> None:
    ledger = Ledger(cluster.pk)
    for minute, placed in enumerate((0, 0, 1, 1)):
        write(ledger, minute, a_gang("llm", 1, placed=placed))
    told = list(GangMoment.objects.order_by("at", "kind").values_list("kind", "what"))
    assert told == [("reason", "NODE_UNHEALTHY"), ("state", "waiting"), ("state", "running")]


def test_outside_of_the_fences_transaction_nothing_is_written(transactional_db: None) -> None:
    with pytest.raises(RuntimeError):
        services.store(Ledger(1), {}, {}, T0)
