"""What ails the connection to a cluster stands on the fleet page, in the observer's own words."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from dashboard import clock
from fleet.inventory import clusters, lease
from fleet.inventory.models import Cluster
from tests.builders import T0, TestClock, a_cluster, a_node

pytestmark = pytest.mark.django_db
TEXT = "The credential may not list pods at https://10.0.0.1:6443: forbidden"


@pytest.fixture(autouse=True)
def night(monkeypatch: pytest.MonkeyPatch) -> TestClock:
    still = TestClock(T0)
    monkeypatch.setattr(clock, "_clock", still)
    return still


@pytest.fixture
def ailing() -> Cluster:
    cluster = a_cluster()
    a_node(cluster)
    epoch = lease.take(cluster.pk, "observer", T0)
    assert epoch is not None
    since = (T0 - timedelta(minutes=3)).isoformat()
    clusters.set_conditions(cluster.pk, epoch, [{"code": "watch_pods", "text": TEXT, "since": since}], T0)
    return cluster


def test_a_condition_is_told_with_its_cluster_and_age_at_no_extra_query(
    viewer: Client, ailing: Cluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(5):
        page = viewer.get("/fleet/").content.decode()
    assert f"<b>demo:</b> {TEXT}" in page
    assert "3 min ago" in page
    assert "Nothing needs you now" not in page


def test_conditions_of_another_cluster_are_not_told_of_this_one(viewer: Client, ailing: Cluster) -> None:
    a_node(a_cluster("busan-1", observer_until=T0 + timedelta(minutes=1)), "gpu-b-01")
    assert TEXT in viewer.get("/fleet/").content.decode()
    assert TEXT not in viewer.get("/fleet/", {"cluster": "busan-1"}).content.decode()
