"""One observer per cluster: a lease that runs out, an epoch that fences the loser."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from fleet.inventory import lease
from fleet.inventory.models import Cluster
from tests.builders import T0, a_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster() -> Cluster:
    return a_cluster()


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def test_a_standby_waits_until_the_lease_ran_out(cluster: Cluster) -> None:
    assert lease.take(cluster.pk, "one", at(0)) == 1
    assert lease.take(cluster.pk, "two", at(5)) is None
    assert lease.take(cluster.pk, "two", at(6.1)) == 2


def test_renewing_keeps_it_and_losing_it_is_told(cluster: Cluster) -> None:
    epoch = lease.take(cluster.pk, "one", at(0))
    assert epoch is not None and lease.renew(cluster.pk, epoch, at(4))
    assert lease.take(cluster.pk, "two", at(8)) is None
    assert lease.take(cluster.pk, "two", at(11)) == 2
    assert not lease.renew(cluster.pk, epoch, at(12))


def test_a_restart_under_the_same_name_waits_like_a_stranger(cluster: Cluster) -> None:
    lease.take(cluster.pk, "one", at(0))
    assert lease.take(cluster.pk, "one", at(1)) is None


def test_a_released_lease_is_free_at_once(cluster: Cluster) -> None:
    lease.release(cluster.pk, lease.take(cluster.pk, "one", at(0)) or 0)
    assert lease.take(cluster.pk, "two", at(0.1)) == 2


def test_a_clock_that_stepped_back_locks_nobody_out(cluster: Cluster) -> None:
    lease.take(cluster.pk, "one", at(3600))
    assert lease.take(cluster.pk, "two", at(0)) == 2


def test_a_removed_cluster_is_not_observed(cluster: Cluster) -> None:
    epoch = lease.take(cluster.pk, "one", at(0)) or 0
    Cluster.objects.update(removed_at=T0)
    assert not lease.renew(cluster.pk, epoch, at(1))


@pytest.mark.django_db(transaction=True)
def test_the_fence_outside_a_transaction_is_a_mistake() -> None:
    with pytest.raises(RuntimeError):
        lease.guard(a_cluster().pk, 0)
