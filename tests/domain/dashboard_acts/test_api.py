"""The same by REST: rights in each cluster, tokens that stand for people, and input that nobody sane sends."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from fleet.access.models import Grant, User
from fleet.access.services import close_user, create_token, ensure_user
from fleet.inventory.models import Node
from fleet.lifecycle.models import Batch, Workflow
from fleet.policy.models import Approval
from tests.builders import T0, a_cluster, a_node
from tests.domain.dashboard_acts.conftest import NAMES, client_of, the_batch

HOLD = {"action": "hold", "reason": "new firmware"}
RACK = {"action": "reboot", "reason": "new firmware", "rack": "r01"}
WINDOW = {"zone": "Asia/Seoul", "start": "02:00", "minutes": 120, "days": [1, 2]}


class Machine:
    """A client with a bearer token."""

    def __init__(self, scope: str, user: User | None = None, cluster: str = "") -> None:
        _, self.secret = create_token(name="ci", scope=scope, now=T0, by="test", cluster=cluster, user=user)

    def __call__(self, path: str, body: Any = None, status: int = 200) -> Any:
        header = {"Authorization": f"Bearer {self.secret}"}
        client = Client()
        if body is None:
            answer = client.get(f"/api/v1{path}", headers=header)
        else:
            text = body if isinstance(body, str) else json.dumps(body)
            answer = client.post(f"/api/v1{path}", text, content_type="application/json", headers=header)
        assert answer.status_code == status, (answer.status_code, answer.content[:300])
        return answer.json()


def person(role: str, cluster: str = "", name: str = "") -> Machine:
    user = ensure_user(name=name or role, password=None, role=role, now=T0, by="test", cluster=cluster)
    return Machine("act", user)


def test_an_action_on_a_node_is_asked_for_agreed_to_and_begins(rack: list[Node]) -> None:
    ann, bo = person("operator", name="ann"), person("approver", name="bo")
    asked = ann(f"/nodes/{NAMES[0]}/acts", {**HOLD, "action": "reboot"})
    assert asked["waits_for_approval"]
    (one,) = ann("/approvals")
    assert one["title"] == f"Reboot {NAMES[0]}" and "approver" in one["refusal"]
    said = ann(f"/approvals/{one['id']}/approve", {"plan_hash": one["plan_hash"]}, 403)
    assert said["detail"] == "Needs the role approver in cluster demo."
    assert bo(f"/approvals/{one['id']}/approve", {"plan_hash": one["plan_hash"]})["decided"]
    assert Workflow.objects.get().approved_hash == one["plan_hash"]
    assert bo("/approvals?state=decided")[0]["votes"][0]["by"] == "bo"


def test_a_bulk_action_is_shown_first_and_starts_only_with_its_hash(rack: list[Node]) -> None:
    ann = person("operator", name="ann")
    plan = ann("/batches", RACK)
    assert plan["state"] == "draft" and plan["counts"] == {"now": 2, "waits": 2} and len(plan["nodes"]) == 4
    assert "2 of 2 out of service" in plan["nodes"][3]["text"]
    ann(f"/batches/{plan['id']}/start", {"plan_hash": "0" * 64}, 409)
    started = ann(f"/batches/{plan['id']}/start", {"plan_hash": plan["plan_hash"]})
    assert started["state"] == "waiting" and started["approval"]
    for name in ("bo", "cho"):
        other = person("approver", name=name)
        other(f"/approvals/{started['approval']}/approve", {"plan_hash": plan["plan_hash"]})
    assert ann(f"/batches/{plan['id']}")["state"] == "running"
    assert ann(f"/batches/{plan['id']}/pause", {"reason": "x"})["state"] == "paused"
    assert ann(f"/batches/{plan['id']}/resume", {})["state"] == "running"
    assert ann(f"/batches/{plan['id']}/cancel", {"reason": "x"})["state"] == "cancelled"
    ann(f"/batches/{plan['id']}/cancel", {"reason": "x"}, 409)


def test_a_maintenance_is_planned_with_its_window(rack: list[Node]) -> None:
    body = {**RACK, "window": {**WINDOW, "first_day": "2026-12-01", "last_day": "2026-12-01"}, "stop_after": 2}
    plan = person("operator")("/batches", body)
    assert plan["label"].startswith("MW-")
    batch = the_batch()
    assert batch.begins is not None and batch.ends is not None
    assert (batch.ends - batch.begins).days == 1 and batch.begins.isoformat() == "2026-11-30T15:00:00+00:00"


def test_a_maintenance_names_a_playbook_and_its_version(rack: list[Node]) -> None:
    ann, body = person("operator"), {key: value for key, value in RACK.items() if key != "action"}
    plan = ann("/batches", {**body, "playbook": "reboot", "window": WINDOW})
    name, _, version = plan["playbook"].partition("@")
    assert (plan["action"], name) == ("playbook", "reboot") and len(version) == 8
    assert ann("/batches", {**body, "playbook": plan["playbook"]})["playbook"] == plan["playbook"]
    for wrong, said in (("reboot@00000000", "in force is"), ("no-such", "no playbook no-such"), ("", "Either")):
        assert said in ann("/batches", {**body, "playbook": wrong}, 422)["detail"]
    assert "Either" in ann("/batches", {**RACK, "playbook": "reboot"}, 422)["detail"]
    ann("/batches", {**body, "playbook": "x" * 81}, 422)
    assert ann("/batches", RACK)["playbook"] == ""


@pytest.mark.parametrize(
    ("role", "acts", "votes"),
    [("viewer", 403, 403), ("operator", 200, 403), ("approver", 200, 200), ("policy", 403, 403), ("admin", 200, 200)],
)
def test_each_role_may_what_its_rights_say(rack: list[Node], role: str, acts: int, votes: int) -> None:
    them = person(role)
    person("operator", name="ann")(f"/nodes/{NAMES[3]}/acts", {**HOLD, "action": "reboot"})
    row = Approval.objects.get()
    them(f"/nodes/{NAMES[0]}/acts", HOLD, acts)
    them("/batches", RACK, acts)
    them(f"/approvals/{row.pk}/approve", {"plan_hash": row.plan_hash}, votes)
    assert Workflow.objects.filter(node__name=NAMES[0]).exists() == (acts == 200)


def test_rights_are_each_clusters_own(rack: list[Node]) -> None:
    a_node(a_cluster("other"), "gpu-x")
    here = person("admin", "demo")
    here("/nodes/gpu-x/acts", HOLD, 404)
    here("/batches", {**HOLD, "names": ["gpu-x"]}, 422)
    Grant.objects.create(user=User.objects.get(username="admin"), role="viewer", cluster="other")
    assert here("/nodes/gpu-x/acts", HOLD, 403)["detail"] == "Needs the role operator in cluster other."
    here("/batches", {**HOLD, "names": ["gpu-x"]}, 403)
    assert not Workflow.objects.exists() and not Batch.objects.exists()


def test_a_token_of_one_cluster_acts_in_no_other_whatever_its_person_may(rack: list[Node]) -> None:
    a_node(a_cluster("other"), "gpu-x")
    admin = ensure_user(name="root", password=None, role="admin", now=T0, by="test")
    only = Machine("act", admin, "demo")
    only("/nodes/gpu-x/acts", HOLD, 404)
    only(f"/nodes/{NAMES[0]}/acts", HOLD)


def test_a_token_that_reads_acts_on_nothing_and_that_of_a_closed_account_not_even_reads(rack: list[Node]) -> None:
    reader = Machine("read")
    assert reader("/approvals") == []
    for path, body in ((f"/nodes/{NAMES[0]}/acts", HOLD), ("/batches", RACK)):
        assert "only reads" in reader(path, body, 403)["detail"]
    gone = person("admin", name="gone")
    close_user(name="gone", now=T0, by="test")
    gone("/approvals", status=401)
    assert not Workflow.objects.exists()


def test_a_session_writes_only_with_the_token_against_forged_forms(rack: list[Node]) -> None:
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client_of("operator").cookies
    path, body = f"/api/v1/nodes/{NAMES[0]}/acts", json.dumps(HOLD)
    assert strict.post(path, body, content_type="application/json").status_code == 403
    assert not Workflow.objects.exists()
    strict.get("/bulk/new/")
    secret = strict.cookies["csrftoken"].value
    answer = strict.post(path, body, content_type="application/json", headers={"X-CSRFToken": secret})
    assert answer.status_code == 200, answer.content
    assert Client().post(path, body, content_type="application/json").status_code == 401


@pytest.mark.parametrize(
    "body",
    [
        "", "[]", "nonsense", "{}", {"action": "hold"}, {"action": "hold", "reason": ""}, {**HOLD, "action": "explode"},
        {**HOLD, "reason": "x" * 301}, {**HOLD, "reason": "a\0b"}, {**HOLD, "reason": ["x"]}, {**HOLD, "reason": " "},
    ],
)  # fmt: skip
def test_hostile_bodies_are_refused_and_change_nothing(rack: list[Node], body: Any) -> None:
    them = person("admin")
    assert them(f"/nodes/{NAMES[0]}/acts", body, 400 if body == "nonsense" else 422)
    assert not Workflow.objects.exists()


@pytest.mark.parametrize(
    "fields",
    [
        {"rack": "a\0b"}, {"names": ["a\0b"]}, {"names": ["x" * 254]}, {"labels": "=,=("}, {"labels": "x" * 1001},
        {"at_once": -1}, {"at_once": 10**30}, {"stop_after": 0}, {"window": {**WINDOW, "zone": "\0"}},
        {"window": {**WINDOW, "zone": "../etc"}}, {"window": {**WINDOW, "days": [0]}},
        {"window": {**WINDOW, "days": []}}, {"window": {**WINDOW, "minutes": 10**9}},
        {"window": {**WINDOW, "first_day": "9999-12-31"}}, {"window": {**WINDOW, "last_day": "9999-12-31"}},
        {"rack": ""}, {"names": ["no-such-node"]},
    ],
)  # fmt: skip
def test_hostile_selections_are_refused_in_words(rack: list[Node], fields: dict[str, Any]) -> None:
    assert person("admin")("/batches", {**RACK, **fields}, 422)["detail"]
    assert not Batch.objects.exists()


def test_numbers_that_nothing_has_are_not_there(rack: list[Node]) -> None:
    them, plan = person("admin"), {"plan_hash": "0" * 64}
    for pk in (0, 2**31, 2**63, 10**40):
        them(f"/batches/{pk}", status=404)
        them(f"/batches/{pk}/start", plan, 404)
        them(f"/approvals/{pk}/approve", plan, 404)
    them(f"/nodes/{'x' * 300}/acts", HOLD, 404)
    them("/nodes/a%00b/acts", HOLD, 400)


def test_a_no_takes_a_reason_and_a_vote_the_hash_of_what_was_read(rack: list[Node]) -> None:
    person("operator", name="ann")(f"/nodes/{NAMES[0]}/acts", {**HOLD, "action": "reboot"})
    row, bo = Approval.objects.get(), person("approver")
    bo(f"/approvals/{row.pk}/approve", {"plan_hash": "0" * 64}, 409)
    bo(f"/approvals/{row.pk}/approve", {"plan_hash": "nonsense"}, 422)
    bo(f"/approvals/{row.pk}/reject", {"plan_hash": row.plan_hash}, 409)
    bo(f"/approvals/{row.pk}/reject", {"plan_hash": row.plan_hash, "reason": "no"})
    bo(f"/approvals/{row.pk}/reject", {"plan_hash": row.plan_hash, "reason": "no"}, 409)


def test_the_schema_tells_every_address(rack: list[Node]) -> None:
    paths = Client().get("/api/v1/openapi.json").json()["paths"]
    for path in ("/nodes/{name}/acts", "/batches", "/batches/{pk}", "/batches/{pk}/start", "/batches/{pk}/pause",
                 "/batches/{pk}/resume", "/batches/{pk}/cancel", "/approvals", "/approvals/{pk}/approve",
                 "/approvals/{pk}/reject"):  # fmt: skip
        assert f"/api/v1{path}" in paths, path
