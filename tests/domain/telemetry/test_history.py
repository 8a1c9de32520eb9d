"""History in Postgres: partitions that come and go, hours rolled up once, ranges read back."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import orjson
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.ports.history import Whose
from fleet.telemetry import history, partitions, rollups
from fleet.telemetry.embedded import EmbeddedHistory, step_for
from fleet.telemetry.models import NodeHistory, NodeRollup
from fleet.telemetry.partitions import ROLLED, SAMPLES

pytestmark = pytest.mark.django_db
NOW = datetime.fromisoformat("2026-11-29T12:30:00+00:00")
WHOSE = Whose(11, "gpu-1")


@pytest.fixture(autouse=True)
def clean(db: None) -> Iterator[None]:
    partitions.prepare(NOW)
    yield


def samples(since: datetime, until: datetime, node: int = 11, power: float = 500.0) -> None:
    """A minute's row each minute."""
    rows, at = [], since
    while at < until:
        data = {
            "at": [at.timestamp() + 10 * n for n in range(6)],
            "gpu_power": [[power, power + 10]] * 6,
            "ib_rx": [4e10] * 6,
        }
        rows.append((at, f"node-{node}", orjson.dumps(data)))
        at += timedelta(minutes=1)
    assert history.store(1, rows, {f"node-{node}": node}) == len(rows)


def test_partitions_are_made_before_they_are_needed_and_only_once() -> None:
    assert partitions.prepare(NOW) == 0
    assert "telemetry_nodehistory_2026112912" in partitions.names(SAMPLES)
    assert "telemetry_noderollup_20261129" in partitions.names(ROLLED)
    assert partitions.prepare(NOW + timedelta(hours=1)) == 1


def test_a_write_without_a_partition_is_kept_all_the_same() -> None:
    samples(NOW - timedelta(days=3), NOW - timedelta(days=3) + timedelta(minutes=2))
    assert NodeHistory.objects.count() == 2


def test_a_finished_hour_is_rolled_up_once_and_its_samples_go_when_they_are_old() -> None:
    partitions.prepare(NOW - timedelta(hours=4))
    samples(NOW - timedelta(hours=4), NOW)
    assert rollups.keep(1, NOW) == 4
    assert rollups.keep(1, NOW) == 0
    assert NodeRollup.objects.count() == 4
    assert not NodeHistory.objects.filter(at__lt=NOW.replace(minute=0) - timedelta(hours=2)).exists()
    assert NodeHistory.objects.filter(at__gte=NOW - timedelta(hours=2)).count() == 120


def test_the_running_hour_is_not_rolled_up_before_its_last_minute_is_written() -> None:
    samples(NOW.replace(minute=0), NOW.replace(minute=59))
    assert rollups.keep(1, NOW.replace(hour=13, minute=1)) == 0
    assert rollups.keep(1, NOW.replace(hour=13, minute=3)) == 1


def test_samples_of_a_cluster_that_is_not_rolled_up_stay_for_a_day() -> None:
    partitions.prepare(NOW - timedelta(hours=5))
    samples(NOW - timedelta(hours=5), NOW - timedelta(hours=4))
    partitions.forget(NOW, rollups.is_rolled)
    assert NodeHistory.objects.exists()
    partitions.forget(NOW + timedelta(days=2), rollups.is_rolled)
    assert not NodeHistory.objects.exists()


def test_a_month_later_the_roll_ups_go() -> None:
    samples(NOW - timedelta(hours=2), NOW - timedelta(hours=1))
    rollups.keep(1, NOW)
    partitions.forget(NOW + timedelta(days=29))
    assert NodeRollup.objects.exists()
    partitions.forget(NOW + timedelta(days=32))
    assert not NodeRollup.objects.exists()


def test_two_hours_are_read_at_full_resolution() -> None:
    samples(NOW - timedelta(hours=2), NOW)
    past = EmbeddedHistory().past(WHOSE, NOW - timedelta(hours=1), NOW)
    assert (len(past.rows), past.step, list(past.low)) == (360, 10.0, [])


@pytest.mark.parametrize(("days", "step"), [(1, 10), (7, 30), (30, 120)])
def test_a_long_range_is_read_in_two_queries_from_roll_ups_and_the_minutes_after(days: int, step: int) -> None:
    partitions.prepare(NOW - timedelta(hours=4))
    samples(NOW - timedelta(hours=4), NOW - timedelta(hours=2), power=400.0)
    samples(NOW - timedelta(hours=2), NOW)
    rollups.keep(1, NOW)
    with CaptureQueriesContext(connection) as seen:
        past = EmbeddedHistory().past(WHOSE, NOW - timedelta(days=days), NOW, ("gpu_power",))
    assert len(seen) == 2
    assert past.step == step * 60 == step_for(NOW - timedelta(days=days), NOW).total_seconds()
    assert past.rows[0][1] == {"gpu_power": [400.0, 410.0]} and past.rows[-1][1] == {"gpu_power": [500.0, 510.0]}
    assert past.low[0][1]["gpu_power"][0] == 400.0 and past.high[-1][1]["gpu_power"][1] == 510.0
    assert len(past.rows) == len(past.low) == len(past.high) <= 360
