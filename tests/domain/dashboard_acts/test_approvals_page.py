"""The inbox: what waits, who may vote, and that a vote counts for exactly what was shown."""

from __future__ import annotations

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from fleet.inventory.models import Cluster, Node
from fleet.lifecycle import forcing, manual
from fleet.lifecycle.models import Workflow
from fleet.policy import asking
from fleet.policy.models import Approval
from tests.builders import TestClock, a_cluster, a_node, a_workflow
from tests.domain.dashboard_acts.conftest import NAMES, NOW, client_of


def ask(node: Node, by: str = "ann", reason: str = "firmware") -> Approval:
    manual.request([node.pk], "reboot", by, reason, NOW)
    return Approval.objects.order_by("-pk")[0]


def vote(client: Client, row: Approval, answer: str, reason: str = "", plan: str | None = None) -> str:
    form = {"answer": answer, "reason": reason, "plan": row.plan_hash if plan is None else plan}
    return client.post(f"/approvals/{row.pk}/vote/", form, follow=True).content.decode()


def page_of(client: Client, query: str = "") -> str:
    return client.get(f"/approvals/{query}").content.decode()


def test_a_request_shows_what_it_would_do_and_to_whom(rack: list[Node]) -> None:
    Node.objects.filter(pk=rack[0].pk).update(gang="train/llm")
    ask(Node.objects.get(pk=rack[0].pk))
    page = page_of(client_of("approver"))
    for text in (
        f"Reboot {NAMES[0]}",
        "hold, drain, reboot, validate",
        "train/llm",
        "2 pods there",
        "0 of 1",
        "firmware",
    ):
        assert text in page, text


def test_an_approver_agrees_and_the_plan_goes_on(rack: list[Node]) -> None:
    row = ask(rack[0])
    assert "Approved. It begins" in vote(client_of("approver"), row, "yes", "seen it")
    assert Workflow.objects.get().approved_hash == row.plan_hash
    page = page_of(client_of("viewer"), "?state=decided")
    assert "approver-everywhere" in page and "seen it" in page


def test_a_no_takes_a_reason_and_ends_it(rack: list[Node]) -> None:
    row = ask(rack[0])
    assert "A no takes a reason" in vote(client_of("approver"), row, "no")
    assert "Rejected" in vote(client_of("approver"), row, "no", "not during the demo")
    assert Workflow.objects.get().outcome == "Rejected by approver-everywhere: not during the demo"


def test_nobody_votes_on_a_plan_that_was_not_shown(rack: list[Node]) -> None:
    row = ask(rack[0])
    assert "not the plan that was shown" in vote(client_of("approver"), row, "yes", plan="0" * 64)
    assert Approval.objects.get().votes.count() == 0


@pytest.mark.parametrize(
    ("role", "by", "said"),
    [
        ("operator", "ann", "Needs the role approver in cluster demo."),
        ("viewer", "ann", "Needs the role approver in cluster demo."),
        ("approver", "approver-everywhere", "Another person than the requester must approve."),
    ],
)
def test_who_may_not_vote_is_told_why_and_cannot(rack: list[Node], role: str, by: str, said: str) -> None:
    row, client = ask(rack[0], by), client_of(role)
    page = page_of(client)
    assert said in page and f"/approvals/{row.pk}/vote/" not in page
    vote(client, row, "yes")
    assert Approval.objects.get().state == "pending"


def test_whoever_answered_cannot_answer_again(rack: list[Node], now: TestClock) -> None:
    Approval.objects.filter(pk=ask(rack[0]).pk).update(needed=2)
    row, client = Approval.objects.get(), client_of("approver")
    assert "1 of 2 so far" in vote(client, row, "yes")
    assert "You have answered already." in page_of(client)
    assert "You have answered already." in vote(client, row, "yes")


def test_a_plan_that_changed_says_so_instead_of_taking_votes(rack: list[Node]) -> None:
    row = ask(rack[0])
    Workflow.objects.update(node_uid="another-machine")
    assert "The plan has changed" in page_of(client_of("approver"))
    assert "The plan has changed" in vote(client_of("admin"), row, "yes")


def test_what_ran_out_takes_no_vote_and_is_listed_as_expired(rack: list[Node], now: TestClock) -> None:
    row = ask(rack[0])
    now.tick(3601)
    assert "expired at" in vote(client_of("approver"), row, "yes")
    asking.expire(now.now())
    assert "Expired" in page_of(client_of("viewer"), "?state=decided")


def test_requests_of_other_clusters_are_not_there(rack: list[Node]) -> None:
    row = ask(a_node(a_cluster("other"), "gpu-x"))
    client = client_of("approver", "demo")
    assert "gpu-x" not in page_of(client)
    assert client.post(f"/approvals/{row.pk}/vote/", {"answer": "yes", "plan": row.plan_hash}).status_code == 404


def test_the_navigation_counts_what_waits_in_view(rack: list[Node]) -> None:
    ask(rack[0])
    ask(a_node(a_cluster("other"), "gpu-x"))
    nav = client_of("viewer", "demo").get("/frame/nav?at=/fleet/").content.decode()
    assert 'class="n hot">1<' in nav
    assert 'class="n hot">2<' in client_of("viewer").get("/frame/nav?at=/fleet/").content.decode()


def test_by_get_without_a_token_or_with_another_answer_nothing_is_voted(rack: list[Node]) -> None:
    row, client = ask(rack[0]), client_of("admin")
    assert client.get(f"/approvals/{row.pk}/vote/").status_code == 405
    assert client.post(f"/approvals/{row.pk}/vote/", {"answer": "perhaps"}).status_code == 404
    assert client.post("/approvals/999999999999/vote/", {"answer": "yes"}).status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.cookies = client.cookies
    assert strict.post(f"/approvals/{row.pk}/vote/", {"answer": "yes", "plan": row.plan_hash}).status_code == 403
    assert Approval.objects.get().votes.count() == 0


def test_the_page_costs_the_same_whatever_waits(
    rack: list[Node], cluster: Cluster, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    client = client_of("approver")
    for node in rack:
        ask(node)
    with django_assert_max_num_queries(10):
        page_of(client)


def test_what_is_asked_for_a_drain_is_voted_on_here_in_its_order(rack: list[Node]) -> None:
    workflow = a_workflow(rack[0], state="blocked", step=1)
    forced = forcing.ask(workflow, "force", {"u1": "serving/cache-2"}, "ann", "the vendor waits", NOW)
    head = forcing.ask(workflow, "ray_head", {"u2": "ray/head"}, "ann", "the vendor waits", NOW)
    client = client_of("approver")
    page = page_of(client)
    for text in (f"Drain by force on {NAMES[0]}", "serving/cache-2", "ray/head", f"/workflows/{workflow.pk}/"):
        assert text in page, text
    assert "answer that first" in vote(client, head, "yes")
    vote(client, forced, "yes")
    vote(client, head, "yes")
    assert {row.state for row in Approval.objects.all()} == {"approved"}


def test_an_empty_inbox_names_what_comes_here(cluster: Cluster) -> None:
    page = page_of(client_of("viewer"))
    assert "Nothing waits for approval." in page and "manage.py approvals list" in page
