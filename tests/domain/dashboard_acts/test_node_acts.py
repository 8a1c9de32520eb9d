"""The buttons of a node's page: who may press which, and what the others say."""

from __future__ import annotations

import pytest
from django.test import Client

from fleet.access.models import Grant, User
from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Approval
from tests.builders import a_cluster, a_node, a_workflow
from tests.domain.dashboard_acts.conftest import NAMES, client_of

ACTS = ("hold", "release", "drain", "validate", "reset_gpu", "reboot", "power_cycle", "reprovision")


def press(client: Client, action: str, reason: str = "new firmware", cluster: str = "demo") -> str:
    answer = client.post(f"/nodes/{NAMES[0]}/acts/{action}/?cluster={cluster}", {"reason": reason}, follow=True)
    return answer.content.decode()


def test_an_operator_holds_a_node_with_a_reason(rack: list[Node]) -> None:
    said = press(client_of("operator"), "hold")
    assert "Hold begins as soon as the guards allow it." in said
    workflow = Workflow.objects.get()
    assert (workflow.playbook, workflow.created_by, workflow.reason) == (
        "manual-hold", "operator-everywhere", "new firmware",
    )  # fmt: skip
    assert AuditRow.objects.get(action="workflow.request").detail["reason"] == "new firmware"


def test_a_reboot_goes_to_the_inbox_first(rack: list[Node]) -> None:
    assert "It waits for another person&#x27;s approval." in press(client_of("operator"), "reboot")
    assert Workflow.objects.get().state == "waiting" and Approval.objects.get().kind == "bmc_power"


def test_without_a_reason_nothing_is_done(rack: list[Node]) -> None:
    assert "It takes a reason" in press(client_of("operator"), "hold", " ")
    assert not Workflow.objects.exists()


@pytest.mark.parametrize("action", ACTS)
def test_a_viewer_acts_on_nothing(rack: list[Node], action: str) -> None:
    client = client_of("viewer")
    assert client.post(f"/nodes/{NAMES[0]}/acts/{action}/?cluster=demo", {"reason": "x"}).status_code == 403
    page = client.get(f"/nodes/{NAMES[0]}/acts/?cluster=demo").content.decode()
    assert page.count("Needs the role operator in cluster demo.") == len(ACTS) and "<form" not in page
    assert not Workflow.objects.exists()


def test_who_operates_one_cluster_acts_in_no_other(rack: list[Node]) -> None:
    other = a_node(a_cluster("other"), "gpu-x")
    client = client_of("operator", "demo")
    assert client.post(f"/nodes/{other.name}/acts/hold/?cluster=other", {"reason": "x"}).status_code == 404
    Grant.objects.create(user=User.objects.get(username="operator-demo"), role="viewer", cluster="other")
    assert client.post(f"/nodes/{other.name}/acts/hold/?cluster=other", {"reason": "x"}).status_code == 403
    assert not Workflow.objects.exists()


def test_by_get_and_without_the_forms_token_nothing_is_done(rack: list[Node]) -> None:
    client = client_of("admin")
    assert client.get(f"/nodes/{NAMES[0]}/acts/hold/?cluster=demo").status_code == 405
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    assert strict.post(f"/nodes/{NAMES[0]}/acts/hold/?cluster=demo", {"reason": "x"}).status_code == 403
    assert client.post(f"/nodes/{NAMES[0]}/acts/explode/?cluster=demo", {"reason": "x"}).status_code == 404
    assert not Workflow.objects.exists()


def test_a_button_that_does_not_work_keeps_focus_and_says_why(rack: list[Node], cluster: Cluster) -> None:
    busy = a_workflow(rack[0])
    page = client_of("operator").get(f"/nodes/{NAMES[0]}/acts/?cluster=demo").content.decode()
    assert page.count('aria-disabled="true"') == len(ACTS)
    assert f"{busy.label} works on {NAMES[0]} already." in page
    assert f"{busy.label} works on {NAMES[0]}; abort it to have the node back." in page


def test_a_kept_node_is_released_with_a_reason(rack: list[Node]) -> None:
    plan = [{"verb": "hold"}, {"verb": "keep"}]
    a_workflow(rack[0], state="blocked", plan=plan, step=1, blocked_code="kept", hold_value="1/op")
    assert "It is being given back" in press(client_of("operator"), "release", "firmware is in")
    assert Workflow.objects.get().verb == "release"
    row = AuditRow.objects.get(action="workflow.abort")
    assert (row.actor, row.detail["reason"]) == ("operator-everywhere", "firmware is in")


def test_the_guards_answer_and_the_approval_stand_beside_the_button(rack: list[Node]) -> None:
    for node in rack[1:3]:
        Node.objects.filter(pk=node.pk).update(foreign_hold=True)
    page = client_of("operator").get(f"/nodes/{NAMES[0]}/acts/?cluster=demo").content.decode()
    assert "1 other person must agree first. It would wait: Rack r01: 2 of 2 out of service" in page


def test_a_reason_from_outside_is_shown_as_text(rack: list[Node]) -> None:
    press(client_of("operator"), "hold", "<script>alert(1)</script>")
    client = client_of("viewer")
    assert "<script>alert(1)" not in client.get(f"/workflows/{Workflow.objects.get().pk}/").content.decode()
