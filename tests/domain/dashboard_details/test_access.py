"""Who may see and who may press what."""

from __future__ import annotations

import pytest
from django.test import Client

from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Workflow
from fleet.tickets.models import Ticket
from tests.builders import TestClock, a_cluster, a_node, a_workflow
from tests.domain.dashboard_details.conftest import a_story, client_of

ACTS = ("retry", "skip", "abort", "approve", "force", "hurry")


@pytest.mark.parametrize("act", ACTS)
def test_a_viewer_cannot_act_on_a_workflow(viewer: Client, cluster: Cluster, act: str) -> None:
    workflow = a_story(cluster)
    before = Workflow.objects.values().get(pk=workflow.pk)
    assert viewer.post(f"/workflows/{workflow.pk}/{act}/", {"reason": "because"}).status_code == 403
    assert Workflow.objects.values().get(pk=workflow.pk) == before


def test_a_viewer_cannot_close_a_ticket(viewer: Client, cluster: Cluster) -> None:
    ticket = a_story(cluster).node.tickets.get()
    assert viewer.post(f"/tickets/{ticket.pk}/close/", {"resolution": "done"}).status_code == 403
    assert Ticket.objects.get(pk=ticket.pk).state == "open"


def test_an_operator_of_one_cluster_cannot_act_in_another(now: TestClock, cluster: Cluster) -> None:
    workflow = a_story(a_cluster("other"))
    here = client_of("operator", "demo")
    client_of("viewer", "other")
    assert here.post(f"/workflows/{workflow.pk}/abort/", {"reason": "no"}).status_code == 404
    assert here.get(f"/workflows/{workflow.pk}/").status_code == 404
    assert here.get("/nodes/gpu-r01-01/").status_code == 404


def test_who_sees_a_cluster_but_may_not_operate_there_is_refused(now: TestClock, cluster: Cluster) -> None:
    from fleet.access.models import Grant, User

    client = client_of("operator", "demo")
    workflow = a_story(a_cluster("other"))
    Grant.objects.create(user=User.objects.get(username="operator-demo"), role="viewer", cluster="other")
    assert client.get(f"/workflows/{workflow.pk}/").status_code == 200
    assert client.post(f"/workflows/{workflow.pk}/abort/", {"reason": "no"}).status_code == 403


@pytest.mark.parametrize("act", ACTS)
def test_acting_by_get_is_refused(now: TestClock, cluster: Cluster, act: str) -> None:
    workflow = a_story(cluster)
    assert client_of("admin").get(f"/workflows/{workflow.pk}/{act}/").status_code == 405


def test_a_form_without_its_token_is_refused(now: TestClock, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client_of("admin").cookies
    assert strict.post(f"/workflows/{workflow.pk}/abort/", {"reason": "no"}).status_code == 403


def test_a_button_that_a_viewer_may_not_press_says_why_and_keeps_focus(viewer: Client, cluster: Cluster) -> None:
    page = viewer.get(f"/workflows/{a_story(cluster).pk}/").content.decode()
    assert 'aria-disabled="true" aria-describedby="why-retry"' in page
    assert "Needs the role operator in cluster demo." in page
    assert "/retry/" not in page


def test_abort_without_a_reason_does_nothing(operator: Client, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    answer = operator.post(f"/workflows/{workflow.pk}/abort/", {"reason": "  "}, follow=True)
    assert "give a reason" in answer.content.decode()
    assert Workflow.objects.get(pk=workflow.pk).state == "blocked"


def test_abort_with_a_reason_is_audited(operator: Client, cluster: Cluster) -> None:
    workflow = a_story(cluster)
    operator.post(f"/workflows/{workflow.pk}/abort/", {"reason": "the rack is being moved"})
    row = AuditRow.objects.get(action="workflow.abort")
    assert (row.actor, row.object) == ("operator-everywhere", f"workflow:{workflow.pk}")
    assert row.detail["reason"] == "the rack is being moved"


def test_the_services_refusal_is_shown_as_a_sentence(operator: Client, cluster: Cluster) -> None:
    workflow = a_workflow(a_node(cluster, "gpu-x"), state="running", step=2)
    answer = operator.post(f"/workflows/{workflow.pk}/skip/", {"reason": "please"}, follow=True)
    assert "cannot be skipped" in answer.content.decode()


def test_a_drain_that_one_person_may_not_skip_says_so_beside_its_button(operator: Client, cluster: Cluster) -> None:
    workflow = a_workflow(a_node(cluster, "gpu-x", pods=2), state="blocked", step=1, blocked_code="pdb")
    page = operator.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "Work runs on gpu-x (pods: 2)" in page and "Confirm skip" not in page
    answer = operator.post(f"/workflows/{workflow.pk}/skip/", {"reason": "please"}, follow=True)
    assert "would end it without a word" in answer.content.decode()
    assert Workflow.objects.get(pk=workflow.pk).step == 1


def test_the_requester_cannot_approve(now: TestClock, cluster: Cluster) -> None:
    client = client_of("approver")
    workflow = a_workflow(a_node(cluster), state="waiting", step=0, created_by="approver-everywhere")
    page = client.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "another person must approve" in page
    client.post(f"/workflows/{workflow.pk}/approve/")
    assert Workflow.objects.get(pk=workflow.pk).state == "waiting"


def test_everybody_must_log_in(cluster: Cluster) -> None:
    workflow = a_story(cluster)
    for path in ("/nodes/gpu-r01-01/", "/workflows/", f"/workflows/{workflow.pk}/", "/incidents/", "/audit.csv"):
        assert Client().get(path).status_code == 302
