"""An observer's parts around a cluster with two nodes, on a clock that tests move."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleet.inventory import aliases, lease, selectors
from fleet.inventory.models import Cluster
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame
from tests.builders import T0, TestClock, a_cluster, a_node


@pytest.fixture
def clock() -> TestClock:
    return TestClock()


@pytest.fixture
def cluster() -> Cluster:
    cluster = a_cluster()
    for name in ("gpu-r01-01", "gpu-r01-02"):
        a_node(cluster, name)
    return cluster


@pytest.fixture
def session(cluster: Cluster, clock: TestClock, tmp_path: Path) -> Session:
    epoch = lease.take(cluster.pk, "here", T0)
    assert epoch is not None
    session = Session(cluster, epoch, clock, tmp_path, 15.0)
    session.connected_at = cluster.connected_at
    know(session)
    return session


def know(session: Session) -> None:
    session.know_nodes(selectors.node_ids(session.cluster_id))
    session.aliases = aliases.load(session.cluster_id)


@pytest.fixture
def judge(session: Session) -> Judge:
    judge = Judge(session, Frame())
    judge.start()
    return judge
