"""Shared incidents and repeat offenders, as people read them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleet.health.models import Incident, IncidentMember, Signal
from fleet.inventory.models import Cluster, Node
from fleet.readmodels.company import offenders, record_of
from fleet.readmodels.why import why
from fleet.tickets.models import Ticket
from tests.builders import T0, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import a_signal, client_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def node(cluster: Cluster) -> Node:
    return a_node(cluster, "gpu-r01-09")


@pytest.fixture
def shared(node: Node) -> Incident:
    incident = an_incident(
        node, cause="fabric", title="InfiniBand trouble on 3 nodes of leaf leaf-7: suspect the switch"
    )
    Incident.objects.filter(pk=incident.pk).update(node=None, scope="leaf", place="leaf-7")
    incident.refresh_from_db()
    IncidentMember.objects.create(incident=incident, node=node, joined_at=T0)
    a_signal(node, incident)
    return incident


def test_the_page_of_a_shared_incident_lists_its_nodes(viewer: Client, shared: Incident) -> None:
    page = viewer.get(f"/incidents/{shared.pk}/").content.decode()
    assert "Nodes that share it" in page and "gpu-r01-09" in page and "leaf-7" in page
    assert "nothing is done to any one of them" in page


def test_a_members_page_and_why_say_that_it_is_shared(viewer: Client, shared: Incident, node: Node) -> None:
    page = viewer.get(f"/nodes/{node.name}/").content.decode()
    assert f"/incidents/{shared.pk}/" in page and "shared by many nodes" in page
    told = why("", node.name, T0)
    assert told["incident"]["id"] == shared.pk and told["blocked"]["reason"] == "shared"
    Signal.objects.update(cleared_at=T0)
    assert why("", node.name, T0)["blocked"] is None


def test_a_fault_that_may_be_shared_says_until_when_it_settles(node: Node) -> None:
    an_incident(node, plan_after=T0 + timedelta(seconds=20))
    told = why("", node.name, T0)
    assert told["blocked"]["reason"] == "settling"
    assert told["blocked"]["until"] == (T0 + timedelta(seconds=20)).isoformat()


def test_the_page_says_until_when_a_fault_settles_or_is_kept_open(viewer: Client, node: Node) -> None:
    settling = an_incident(node, plan_after=T0 + timedelta(seconds=20))
    flapping = an_incident(node, cause="ib-down", open_until=T0 + timedelta(minutes=20))
    assert "unless other nodes turn out to share it" in viewer.get(f"/incidents/{settling.pk}/").content.decode()
    assert "stays open until" in viewer.get(f"/incidents/{flapping.pk}/").content.decode()


def test_what_became_part_of_a_shared_incident_is_listed_there_only(
    viewer: Client, shared: Incident, node: Node
) -> None:
    part = an_incident(node, part_of=shared, state="resolved")
    assert f"INC-{part.pk}<" not in viewer.get("/incidents/").content.decode()
    assert record_of(node, T0).score == 0


def test_the_score_of_a_repeat_offender_shows_what_it_is_made_of(viewer: Client, node: Node) -> None:
    an_incident(node, title="GPU 3 fell off", detected_at=T0 - timedelta(days=14))
    found = record_of(node, T0)
    assert found.score == pytest.approx(0.5)
    page = viewer.get(f"/nodes/{node.name}/?part=offences").content.decode()
    assert "GPU 3 fell off" in page
    Ticket.objects.create(
        cluster=node.cluster, node=node, state="closed", title="Board", opened_at=T0 - timedelta(days=3), closed_at=T0
    )
    assert record_of(node, T0).score == 0


def test_a_hold_of_another_installation_is_not_called_ours(viewer: Client, node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(hold_value="17/abc", unschedulable=True)
    page = viewer.get(f"/nodes/{node.name}/").content.decode()
    assert "Another installation of Muster holds the node, with the mark 17/abc" in page
    assert "Held by another Muster" in page and "Muster holds the node." not in page and ">Held by Muster<" not in page
    assert "Another installation of Muster holds it, with the mark 17/abc." in why("", node.name, T0)["text"]


def test_a_hold_that_a_workflow_of_ours_wrote_is_ours_even_when_that_is_over(viewer: Client, node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(hold_value="17/abc", unschedulable=True)
    a_workflow(node, an_incident(node, state="resolved"), state="failed", hold_value="17/abc", ended_at=T0)
    page = viewer.get(f"/nodes/{node.name}/").content.decode()
    assert "Another installation" not in page and ">Held by Muster<" in page
    assert "Another installation" not in why("", node.name, T0)["text"]


def test_the_list_of_offenders_is_the_nodes_records_in_order(viewer: Client, cluster: Cluster, node: Node) -> None:
    worse, shared_only, mended = (a_node(cluster, f"gpu-r01-1{n}") for n in range(3))
    an_incident(node, title="One fault")
    for day in range(3):
        an_incident(worse, device=f"GPU-{day}", title=f"Fault {day}", detected_at=T0 - timedelta(days=14 * day))
    whole = an_incident(shared_only, cause="fabric")
    an_incident(shared_only, device="GPU-9", part_of=whole)
    Incident.objects.filter(pk=whole.pk).update(node=None, scope="leaf")
    an_incident(mended, detected_at=T0 - timedelta(days=3), title="Before the repair")
    Ticket.objects.create(
        cluster=cluster, node=mended, title="A part", opened_at=T0 - timedelta(days=2), state="closed",
        closed_at=T0 - timedelta(days=1),
    )  # fmt: skip
    with CaptureQueriesContext(connection) as seen:
        found = offenders(None, T0)
    assert len(seen) == 5
    assert [offender.node.name for offender in found] == [worse.name, node.name]
    assert [offender.record.score for offender in found] == [record_of(o.node, T0).score for o in found]
    assert found[0].record.score == pytest.approx(1.75)
    page = viewer.get("/offenders/").content.decode()
    assert page.index("Fault 0") < page.index("One fault") and "Before the repair" not in page
    assert "/offenders/" in viewer.get("/incidents/").content.decode()
    assert "/offenders/" in viewer.get("/fleet/").content.decode()
    assert worse.name not in client_of("viewer", "west").get("/offenders/").content.decode()
