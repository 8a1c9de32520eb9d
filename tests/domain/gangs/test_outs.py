"""Why a node takes no work: the lifecycle's word before the cluster's, with who works on it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.gangs.diagnosis.rooms import Out
from fleet.inventory.models import Cluster
from fleet.lifecycle.machine import NodeState, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.readmodels.gang_outs import outs
from fleet.tickets.models import Ticket
from tests.builders import T0, a_cluster, a_node, a_workflow

pytestmark = pytest.mark.django_db


def test_who_is_out_says_why_and_who_serves_is_left_out() -> None:
    cluster = a_cluster()
    a_node(cluster, "serves")
    a_node(cluster, "cordoned", unschedulable=True)
    a_node(cluster, "unready", ready=False, ready_reason="KubeletNotReady", ready_since=T0)
    draining = a_node(cluster, "drains", state=NodeState.DRAINING, unschedulable=True)
    workflow = a_workflow(draining)
    ticket = Ticket.objects.create(cluster=cluster, node=draining, title="Replace GPU 3", opened_at=T0)
    found = outs(cluster.pk, T0)
    assert {name: out.code for name, out in found.items()} == {
        "cordoned": "cordoned",
        "unready": "not_ready",
        "drains": "draining",
    }
    assert (found["drains"].workflow, found["drains"].ticket) == (workflow.pk, ticket.label)
    assert (found["unready"].text, found["unready"].since) == ("KubeletNotReady", T0)


def test_many_nodes_cost_no_more_queries_than_one() -> None:
    cluster = a_cluster()
    for n in range(20):
        a_node(cluster, f"n{n}", unschedulable=True)
    with CaptureQueriesContext(connection) as seen:
        assert len(outs(cluster.pk, T0)) == 20
    assert len(seen) == 4


def went_before(cluster: Cluster, count: int, minutes: float) -> None:
    for n in range(count):
        row = a_workflow(a_node(cluster, f"before-{minutes:g}-{n}"), state=WorkflowState.SUCCEEDED)
        ended = T0 - timedelta(hours=1)
        Workflow.objects.filter(pk=row.pk).update(started_at=ended - timedelta(minutes=minutes + n), ended_at=ended)


def at_work(cluster: Cluster, begun: float, **fields: Any) -> Out:
    """A node whose workflow began so many minutes ago."""
    row = a_workflow(a_node(cluster, "out", state=NodeState.DRAINING, unschedulable=True))
    Workflow.objects.filter(pk=row.pk).update(
        **{"state": WorkflowState.RUNNING, "started_at": T0 - timedelta(minutes=begun), **fields}
    )
    return outs(cluster.pk, T0)["out"]


def test_a_node_is_expected_back_when_its_workflow_has_taken_as_long_as_usual() -> None:
    cluster = a_cluster()
    went_before(cluster, 3, 10)  # 10, 11 and 12 minutes
    assert at_work(cluster, 4).back_at == T0 + timedelta(minutes=7)


@pytest.mark.parametrize(
    ("before", "begun", "fields"),
    [(2, 4, {}), (3, 20, {}), (3, 4, {"state": WorkflowState.BLOCKED}), (3, 4, {"playbook": "another"}),
     (3, 4, {"started_at": None})],
    ids=["too few went before", "it takes longer", "it waits", "of another kind", "not begun"],
)  # fmt: skip
def test_nobody_foresees_a_return_that_nothing_tells(before: int, begun: float, fields: dict[str, Any]) -> None:
    cluster = a_cluster()
    went_before(cluster, before, 10)
    assert at_work(cluster, begun, **fields).back_at is None
