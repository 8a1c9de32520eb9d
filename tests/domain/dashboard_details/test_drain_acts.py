"""What a person may add to a drain that is kept, from its page."""

from __future__ import annotations

from django.test import Client

from fleet.audit.models import AuditRow
from fleet.inventory.models import Cluster
from fleet.lifecycle.models import Step, Workflow
from fleet.policy.models import Approval
from tests.builders import T0, a_node, a_workflow, an_incident


def draining(cluster: Cluster, code: str, **memo: object) -> Workflow:
    node = a_node(cluster, "gpu-r09-01", state="draining")
    workflow = a_workflow(
        node, an_incident(node), state="blocked", step=1, blocked_code=code, blocked_text="Kept.", blocked_since=T0
    )
    Step.objects.create(workflow=workflow, index=1, attempt=1, verb="drain", started_at=T0, memo=memo)
    return workflow


def test_an_operator_asks_to_force_what_a_budget_keeps(operator: Client, cluster: Cluster) -> None:
    workflow = draining(cluster, "pdb", kept_by_budget={"uid-1": ["serving/cache-7", "serving/cache"]})
    page = operator.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "Force the drain" in page and "Wait for nobody" not in page
    operator.post(f"/workflows/{workflow.pk}/force/", {"reason": " "})
    assert not Approval.objects.exists()
    said = operator.post(f"/workflows/{workflow.pk}/force/", {"reason": "it can be rebuilt"}, follow=True)
    assert "another person must agree" in said.content.decode()
    row = Approval.objects.get()
    assert (row.kind, row.state, row.summary["pods"]) == ("force", "pending", ["serving/cache-7"])
    assert AuditRow.objects.filter(action="workflow.force").exists()


def test_a_drain_that_waits_for_a_job_may_be_told_to_wait_for_nobody(operator: Client, cluster: Cluster) -> None:
    workflow = draining(cluster, "job_wait")
    page = operator.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "Wait for nobody" in page and "Force the drain" not in page
    operator.post(f"/workflows/{workflow.pk}/hurry/", {"reason": "the rack loses power at noon"})
    step = Step.objects.get(workflow=workflow)
    assert step.memo["waits_for_nobody"].endswith(": the rack loses power at noon")


def test_a_refusal_is_told_as_it_is(operator: Client, cluster: Cluster) -> None:
    workflow = draining(cluster, "pdb")
    said = operator.post(f"/workflows/{workflow.pk}/force/", {"reason": "now"}, follow=True)
    assert "there is nothing to force" in said.content.decode()


def test_who_only_looks_sees_neither(viewer: Client, cluster: Cluster) -> None:
    workflow = draining(cluster, "pdb", kept_by_budget={"uid-1": ["serving/cache-7", "serving/cache"]})
    page = viewer.get(f"/workflows/{workflow.pk}/").content.decode()
    assert "Force the drain" not in page and "serving/cache-7" in page
