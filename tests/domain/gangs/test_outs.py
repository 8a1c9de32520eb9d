"""Why a node takes no work: the lifecycle's word before the cluster's, with who works on it."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from fleet.lifecycle.machine import NodeState
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
    found = outs(cluster.pk)
    assert {name: out.code for name, out in found.items()} == {
        "cordoned": "cordoned",
        "unready": "not_ready",
        "drains": "draining",
    }
    assert (found["drains"].workflow, found["drains"].ticket) == (workflow.pk, ticket.label)
    assert (found["unready"].text, found["unready"].since) == ("KubeletNotReady", T0)


def test_many_nodes_cost_three_queries() -> None:
    cluster = a_cluster()
    for n in range(20):
        a_node(cluster, f"n{n}", unschedulable=True)
    with CaptureQueriesContext(connection) as seen:
        assert len(outs(cluster.pk)) == 20
    assert len(seen) == 3
