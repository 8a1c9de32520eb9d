"""The same from a shell."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from fleet.access.services import create_token, ensure_user
from fleet.inventory.models import Node
from fleet.lifecycle.models import Workflow
from fleet.policy.models import Approval
from tests.builders import T0, a_cluster, a_node
from tests.domain.dashboard_acts.conftest import NAMES


def run(*words: str) -> str:
    out = StringIO()
    call_command(*words, stdout=out)
    return out.getvalue()


def account(name: str, role: str, cluster: str = "") -> str:
    return ensure_user(name=name, password=None, role=role, now=T0, by="test", cluster=cluster).username


def test_a_node_is_held_from_a_shell_by_a_person_with_a_reason(rack: list[Node]) -> None:
    account("ann", "operator")
    assert "hold gpu-r01-01." in run("node", "hold", NAMES[0], "--reason", "firmware", "--as", "ann")
    workflow = Workflow.objects.get()
    assert (workflow.created_by, workflow.reason) == ("ann", "firmware")
    with pytest.raises(CommandError, match="works on gpu-r01-01 already"):
        run("node", "drain", NAMES[0], "--reason", "again")


def test_a_reboot_is_listed_and_agreed_to_by_another_person(rack: list[Node]) -> None:
    account("ann", "approver"), account("bo", "approver"), account("eve", "operator")
    assert "waits for another person's approval" in run("node", "reboot", NAMES[0], "--reason", "hang", "--as", "ann")
    pk = str(Approval.objects.get().pk)
    assert f"Reboot {NAMES[0]}  demo  by ann: hang  (0 of 1" in run("approvals", "list")
    with pytest.raises(CommandError, match="Another person"):
        run("approvals", "approve", pk, "--as", "ann")
    with pytest.raises(CommandError, match="eve needs the role approver in cluster demo"):
        run("approvals", "approve", pk, "--as", "eve")
    with pytest.raises(CommandError, match="A no takes a reason"):
        run("approvals", "reject", pk, "--as", "bo")
    assert "Approved." in run("approvals", "approve", pk, "--as", "bo")
    with pytest.raises(CommandError, match="No request"):
        run("approvals", "approve", pk, "--as", "bo")


def test_what_is_not_there_or_not_allowed_is_said(rack: list[Node]) -> None:
    account("vera", "viewer")
    with pytest.raises(CommandError, match="There is no node nowhere"):
        run("node", "hold", "nowhere", "--reason", "x")
    with pytest.raises(CommandError, match="no open account nobody"):
        run("node", "hold", NAMES[0], "--reason", "x", "--as", "nobody")
    with pytest.raises(CommandError, match="vera needs the role operator"):
        run("node", "hold", NAMES[0], "--reason", "x", "--as", "vera")
    a_node(a_cluster("other"), NAMES[0])
    with pytest.raises(CommandError, match="Add --cluster: demo, other"):
        run("node", "hold", NAMES[0], "--reason", "x")
    assert not Workflow.objects.exists()


def test_a_token_that_acts_takes_an_account(rack: list[Node]) -> None:
    with pytest.raises(CommandError, match="needs --user"):
        run("token", "create", "--scope", "act")
    account("ann", "operator")
    assert run("token", "create", "--scope", "act", "--user", "ann").startswith("mst_")
    with pytest.raises(ValueError, match="stands for a user"):
        create_token(name="x", scope="act", now=T0, by="test")
