"""People of every role, a clock that stands, and a rack that is well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from dashboard import clock
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.models import Batch
from fleet.policy.models import Cap
from fleet.ports.clock import SYSTEM_CLOCK
from tests.builders import TestClock, a_cluster, a_node
from tests.domain.dashboard_details.conftest import NOW, client_of

__all__ = ["NOW", "client_of"]
NAMES = tuple(f"gpu-r01-{number:02}" for number in range(1, 5))


@pytest.fixture(autouse=True)
def now() -> Iterator[TestClock]:
    standing = TestClock(NOW)
    clock.use(standing)
    yield standing
    clock.use(SYSTEM_CLOCK)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return a_cluster(observer_until=SYSTEM_CLOCK.now() + timedelta(days=1))  # the API asks the real clock


@pytest.fixture
def rack(cluster: Cluster) -> list[Node]:
    Cap.objects.filter(absolute=None).delete()  # a percent of four nodes would bind at once
    return [a_node(cluster, name, labels={"site": "seoul"}) for name in NAMES]


def the_batch() -> Batch:
    return Batch.objects.get()
