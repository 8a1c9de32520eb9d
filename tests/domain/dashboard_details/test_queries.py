"""A page costs the same number of queries whatever the number of rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Step, Workflow
from tests.builders import T0, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import a_signal, a_story, audit_row

FRAME = 4  # session, user, grants, and the frame's numbers
OWN = {
    "/nodes/gpu-r01-01/": 5,
    "/workflows/": 2,
    "/workflows/{workflow}/": 8,
    "/incidents/": 2,
    "/incidents/{incident}/": 4,
    "/tickets/": 2,
    "/tickets/{ticket}/": 1,
    "/audit/": 3,
    "/rules/": 1,
}


def _queries(client: Client, path: str) -> int:
    with CaptureQueriesContext(
        connection,
    ) as seen:
        assert client.get(path).status_code == 200
    return len(seen)


def _grow(cluster: Cluster, workflow: Workflow) -> None:
    for number in range(30):
        node = a_node(cluster, f"more-{number}")
        incident = an_incident(node, cause=f"c{number}")
        a_workflow(node, incident)
        a_signal(workflow.node, workflow.incident, code=str(number))
        audit_row(cluster, "jiwoo", "note", f"workflow:{workflow.pk}", workflow.node.name)
        Step.objects.create(
            workflow=workflow, index=2, attempt=number + 1, verb="reboot", started_at=T0 + timedelta(minutes=1)
        )


@pytest.mark.parametrize("path", OWN)
def test_page_costs_the_same_with_few_and_with_many_rows(viewer: Client, cluster: Cluster, path: str) -> None:
    workflow = a_story(cluster)
    address = path.format(workflow=workflow.pk, incident=workflow.incident_id, ticket=workflow.node.tickets.get().pk)
    viewer.get(address)
    few = _queries(viewer, address)
    _grow(cluster, workflow)
    many = _queries(viewer, address)
    assert few == many
    assert many <= FRAME + OWN[path]
