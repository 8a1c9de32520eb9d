"""The observer and the sweep plan for the same incident at the same moment: one workflow, and no clash."""

from __future__ import annotations

import threading

import pytest
from django.db import connection, transaction

from fleet.inventory import lease
from fleet.inventory.models import Cluster
from fleet.lifecycle import planner
from fleet.lifecycle.models import Workflow
from tests.builders import T0, TestClock, a_cluster, a_node, an_incident

pytestmark = pytest.mark.django_db(transaction=True)


def _sweep(cluster: Cluster, clock: TestClock, made: list[list[int]]) -> None:
    try:
        made.append(planner.replan(cluster.pk, clock, "muster:sweep"))
    finally:
        connection.close()


def test_the_sweep_waits_for_the_observers_plan_and_then_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, cluster = TestClock(), a_cluster()
    incident = an_incident(a_node(cluster, "gpu-1"))
    monkeypatch.setattr(planner, "_ask", lambda cluster_id, clock: None)
    epoch = lease.take(cluster.pk, "observer", T0)
    assert epoch is not None
    by_sweep: list[list[int]] = []
    sweep = threading.Thread(target=_sweep, args=(cluster, clock, by_sweep))
    with transaction.atomic():
        lease.guard(cluster.pk, epoch)
        sweep.start()
        sweep.join(0.3)
        assert sweep.is_alive(), "the sweep plans beside the observer"
        assert planner.plan(cluster.pk, [incident.pk], clock)
    sweep.join(10)
    assert by_sweep == [[]]
    assert Workflow.objects.count() == 1
