"""The policy's pages: what is used and by whom, what a change would do, and who may make one."""

from __future__ import annotations

import html
import re
from datetime import time, timedelta
from typing import Any

import pytest
from django.test import Client

from dashboard import clock
from fleet.inventory.models import Cluster
from fleet.policy import versions
from fleet.policy.document import text_of
from fleet.policy.models import Approval, Breaker, Cap, Claim, PolicyVersion, Window
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import policy_effects, policy_page
from tests.builders import T0, TestClock, a_cluster, a_node, a_workflow, an_incident
from tests.domain.dashboard_details.conftest import client_of

NOW = T0 + timedelta(hours=1)


@pytest.fixture(autouse=True)
def now() -> Any:
    clock.use(TestClock(NOW))
    yield
    clock.use(SYSTEM_CLOCK)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return a_cluster("seoul")


@pytest.fixture
def setter(db: None) -> Client:
    return client_of("policy")


def busy_rack(cluster: Cluster) -> list[Any]:
    """Two of six nodes of a rack in flight, and a third that waits for them."""
    nodes = [a_node(cluster, f"gpu-r07-{number:02d}", rack="r07") for number in range(1, 7)]
    for node in nodes[:2]:
        workflow = a_workflow(node, an_incident(node), step=2)
        Claim.objects.create(
            cluster_id=cluster.pk, kind="in_flight", node_id=node.pk, workflow_id=workflow.pk, claimed_at=T0
        )
    waiting = a_workflow(
        nodes[2], an_incident(nodes[2]), state="blocked", step=2, blocked_code="cap_in_flight",
        blocked_text="Rack r07: 2 of 2 in flight (gpu-r07-01, gpu-r07-02).", blocked_since=T0,
    )  # fmt: skip
    Cap.objects.exclude(kind="in_flight", scope="rack").delete()
    return [*nodes, waiting]


def text(answer: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", " ", answer.content.decode())))


def fields(**more: str) -> dict[str, str]:
    return {"section": "", **more}


def test_each_limit_tells_the_scopes_that_use_it_and_the_names(cluster: Cluster) -> None:
    busy_rack(cluster)
    page = text(client_of("viewer").get("/policy/"))
    assert "In flight, rack 2" in page and "Rack r07, seoul 2 of 2 full gpu-r07-01, gpu-r07-02" in page
    assert "One limit is full in one place" in page
    assert "This needs the role policy" in page


def test_names_of_other_peoples_clusters_are_counted_and_not_told(cluster: Cluster) -> None:
    busy_rack(cluster)
    Cap.objects.create(kind="in_flight", scope="fleet", absolute=2)
    a_cluster("busan")
    page = text(client_of("viewer", "busan").get("/policy/"))
    assert "Fleet 2 of 2 full" in page and "gpu-r07" not in page and "seoul" not in page


def test_floors_and_rates_are_told_with_what_counts_for_them(cluster: Cluster) -> None:
    for number in range(4):
        a_node(cluster, f"n{number}", tenant="vision", verdict="unknown" if number == 0 else "healthy")
    Cap.objects.create(kind="floor", scope="tenant", percent=75)
    Cap.objects.create(kind="rate", scope="fleet", absolute=5, window=1800)
    page = text(client_of("viewer").get("/policy/"))
    assert "Floor of healthy capacity, tenant 75%" in page
    assert "Tenant vision, seoul 3 in service, 3 must stay none may leave out: n0" in page
    assert "Rate of disruption, fleet 5 within 30m" in page


def test_a_form_shows_what_would_change_before_anything_does(cluster: Cluster, setter: Client) -> None:
    *_, waiting = busy_rack(cluster)
    answer = setter.post("/policy/preview/", fields(**{"in_flight.rack": "3"}))
    page = text(answer)
    assert "caps.in_flight.rack every cluster 2 3 looser" in page
    assert f"{waiting.label} gpu-r07-03: would go on" in page and "One that waits would go on." in page
    assert Cap.objects.get().absolute == 2 and not PolicyVersion.objects.exists()
    answer = setter.post("/policy/preview/", fields(**{"in_flight.rack": "1"}))
    page = text(answer)
    assert "no looser" in page and "In flight: Rack r07, seoul 2 of 1 full gpu-r07-01, gpu-r07-02" in page
    assert "still waits. Rack r07: 2 of 1 in flight" in page


def test_applying_what_was_seen_tightens_at_once_and_asks_for_what_loosens(cluster: Cluster, setter: Client) -> None:
    busy_rack(cluster)

    def apply(number: str, base: str = "") -> str:
        seen = setter.post("/policy/preview/", fields(**{"in_flight.rack": number}))
        given = {"text": seen.context["text"], "base": base or seen.context["base"], "reason": "r07 runs hot"}
        return text(setter.post("/policy/apply/", given, follow=True))

    old = setter.post("/policy/preview/", fields(**{"in_flight.rack": "1"})).context["base"]
    assert "is in force." in apply("1")
    assert Cap.objects.get().absolute == 1
    assert "was changed while you looked" in apply("2", old) and Cap.objects.get().absolute == 1
    page = apply("2")
    assert "it waits for another person" in page and "waits for another person's" not in page
    assert Cap.objects.get().absolute == 1 and Approval.objects.get().kind == "loosen"
    assert "another person decides on POL-" in page and "Nothing of it holds until then." in page


def test_mistakes_are_told_with_their_lines_and_the_text_is_not_lost(cluster: Cluster, setter: Client) -> None:
    answer = setter.post("/policy/preview/", {"text": "version: 1\ndefault:\n  caps: {hold: {rack: many}}\n"})
    assert answer.status_code == 422
    assert "3: default.caps.hold.rack cannot be 'many'" in text(answer) and "hold: {rack: many}" in text(answer)
    answer = setter.post("/policy/preview/", fields(**{"hold.rack": "0"}))
    assert "default.caps.hold.rack cannot be 0" in text(answer)


def test_a_cluster_has_words_of_its_own(cluster: Cluster, setter: Client) -> None:
    busy_rack(cluster)
    seen = setter.post("/policy/preview/", {"section": "seoul", "in_flight.rack": "2, 50%", "hold.leaf": "none"})
    given = {"text": seen.context["text"], "base": seen.context["base"], "reason": "old switches"}
    setter.post("/policy/apply/", given)
    own = versions.current().section("seoul").limits
    assert own["in_flight", "rack"].percent == 50 and own["hold", "leaf"].absolute is None
    page = setter.get("/policy/?section=seoul").content.decode()
    assert 'name="in_flight.rack" value="2, 50%"' in page and 'name="hold.leaf" value="none"' in page


def test_whose_role_holds_in_one_cluster_changes_that_one_alone(cluster: Cluster) -> None:
    Cap.objects.filter(scope="rack", kind="in_flight").update(absolute=5)
    mine = client_of("policy", "seoul")
    for section, changed in (("", False), ("seoul", True)):
        base = text_of(versions.current())
        current = {
            f"{c.kind}.{c.scope}": str(c.absolute or f"{c.percent:g}%") for c in Cap.objects.filter(cluster_id=None)
        }
        wanted = {**(current if not section else {}), "section": section, "in_flight.rack": "1"}
        seen = mine.post("/policy/preview/", wanted)
        page = mine.post(
            "/policy/apply/",
            {"text": seen.context["text"], "base": seen.context["base"], "reason": "mine"},
            follow=True,
        )
        assert (text_of(versions.current()) != base) is changed, text(page)


@pytest.mark.parametrize("role", ["viewer", "operator", "approver"])
def test_only_the_policy_role_and_admins_change_it(cluster: Cluster, role: str) -> None:
    client = client_of(role)
    for address in ("/policy/preview/", "/policy/apply/"):
        answer = client.post(address, {"text": "version: 1"})
        assert answer.status_code == 403 and "role policy" in text(answer)
    assert client_of("admin").post("/policy/preview/", {"text": "version: 1"}).status_code == 200


def test_a_version_can_be_shown_again_with_what_it_changed(cluster: Cluster, setter: Client) -> None:
    Window.objects.create(
        kind="freeze", name="quarter end", zone="Asia/Seoul", start=time(2), minutes=240, created_at=T0, days="1"
    )
    tighter = text_of(versions.current()).replace("rack: 2, leaf: 3", "rack: 1, leaf: 3")
    row = versions.propose(versions.read(tighter, "x"), "ann", "r07 runs hot", NOW)
    page = text(setter.get(f"/policy/versions/{row.pk}/"))
    assert "r07 runs hot" in page and "In force" in page and "name: quarter end" in page
    assert "+ in_flight: {fleet: 5%, rack: 1, leaf: 3}" in page
    first = PolicyVersion.objects.order_by("pk")[0]
    assert "Was in force" in text(setter.get(f"/policy/versions/{first.pk}/"))
    assert setter.get("/policy/versions/999999/").status_code == 404
    assert "quarter end freeze every cluster not now begins" in text(setter.get("/policy/"))
    assert "Mon 2026-11-30 02:00 Asia/Seoul" in text(setter.get("/policy/"))


def test_the_author_withdraws_what_waits(cluster: Cluster, setter: Client) -> None:
    looser = text_of(versions.current()).replace("rack: 2, leaf: 3", "rack: 9, leaf: 3")
    row = versions.propose(versions.read(looser, "x"), "ann", "more", NOW)
    assert "Ask for it no more" in text(setter.get(f"/policy/versions/{row.pk}/"))
    setter.post(f"/policy/versions/{row.pk}/withdraw/")
    assert Approval.objects.get().state == "withdrawn"
    assert "Withdrawn" in text(setter.get(f"/policy/versions/{row.pk}/"))


def test_an_open_breaker_says_why_and_is_reset_with_a_reason_by_an_operator_of_that_cluster(cluster: Cluster) -> None:
    Breaker.objects.create(cluster_id=cluster.pk, state="open", since=T0, text="70 of 256 nodes asked to be held.")
    page = text(client_of("viewer").get("/policy/"))
    assert "seoul Open 70 of 256 nodes asked to be held." in page and "needs the role operator" in page
    a_cluster("busan")
    assert client_of("operator", "busan").post("/policy/breakers/seoul/reset/", {"reason": "x"}).status_code == 403
    mine = client_of("operator", "seoul")
    assert "takes a reason" in text(mine.post("/policy/breakers/seoul/reset/", {"reason": " "}, follow=True))
    assert Breaker.objects.get().state == "open"
    page = text(mine.post("/policy/breakers/seoul/reset/", {"reason": "a detector erred"}, follow=True))
    assert "Cooling down" in page and "Reset by operator-seoul: a detector erred" in page
    assert mine.post("/policy/breakers/nowhere/reset/", {"reason": "x"}).status_code == 404


def test_the_last_thirty_days_are_played_against_the_new_numbers(cluster: Cluster) -> None:
    """Three nodes of a rack were in flight one after the other, two of them at once."""
    nodes = [a_node(cluster, f"n{number}", rack="r01") for number in range(3)]
    spans = [(0, 30), (10, 40), (50, 60)]
    for number, (node, (begun, over)) in enumerate(zip(nodes, spans, strict=True)):
        Claim.objects.create(
            cluster_id=cluster.pk, kind="in_flight", node_id=node.pk, workflow_id=number,
            claimed_at=T0 + timedelta(minutes=begun), released_at=T0 + timedelta(minutes=over),
        )  # fmt: skip
    Cap.objects.exclude(kind="in_flight", scope="rack").delete()
    old = versions.current()
    new = versions.read(text_of(old).replace("rack: 2", "rack: 1"), "x")
    effects = policy_effects.read(old, new, None, NOW)
    assert (effects.claims, effects.blocked_before, effects.blocked_after) == (3, 0, 1)
    late = policy_effects.read(old, new, None, NOW + timedelta(days=31))
    assert late.claims == 0


def test_the_page_needs_as_many_queries_for_many_nodes_and_clusters_as_for_few(
    cluster: Cluster, django_assert_max_num_queries: Any
) -> None:
    for name in ("busan", "daegu", "jeju"):
        other = a_cluster(name)
        for number in range(20):
            a_node(other, f"{name}-{number}", rack=f"r{number}")
    with django_assert_max_num_queries(20):
        policy_page.read(None, NOW)
