"""The queues page: who waits, why, since when, what it costs, what would help; filters, order, pages, queries."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from fleet.inventory.models import Cluster
from fleet.readmodels import gang_list
from tests.builders import T0, a_cluster, a_node, a_workflow
from tests.domain.dashboard_details.conftest import NOW, client_of
from tests.gang_rows import a_condition, a_gang_row, a_queue_row, a_quota, because, blocked_by

HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
FRAME = 4


def text(client: Client, path: str = "/queues/", **query: Any) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def said(page: str) -> str:
    start = page.index('class="said"')
    return re.sub(r"<[^>]+>", "", page[start : page.index("</p>", start)])


def titles(page: str) -> list[str]:
    return re.findall(r'<h3><a class="name" href="/gangs/\d+/">([^<]+)</a>', page)


def test_without_a_gang_the_page_says_what_to_ask(viewer: Client, cluster: Cluster) -> None:
    page = text(viewer)
    assert "No gang is known." in said(page)
    assert f"manage.py observe {cluster.name} --once" in page


def test_a_gang_says_why_it_waits_in_words_and_in_its_schedulers_own(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm", reason=because("queue resource quota insufficient"), reason_code="QUOTA")
    page = text(viewer)
    assert "The quota of its queue train does not let it in." in page
    assert "queue resource quota insufficient" in page
    assert 'role="img" aria-label="3 placed, min 4, wanted 4"><path class="g" d="M0 4h400v10H0z"/>' in page
    assert "Work of its queue ends, or the queue may have more." in page


def test_what_is_held_for_nothing_is_counted_up_to_now(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm", placed=3, idle_seconds=3600.0)
    page = text(viewer)
    assert "24 GPUs held and idle by 1 gang, 9 GPU-hours so far." in said(page)  # one hour, and 24 GPUs for 20 min
    assert "USD" not in page


def test_a_price_makes_money_of_it(viewer: Client, cluster: Cluster, settings: Any) -> None:
    settings.GPU_HOUR_PRICE = 2.5
    a_gang_row(cluster, "llm", placed=3, idle_seconds=3600.0)
    assert "9 GPU-hours, 22.50 USD so far" in said(text(viewer))


def test_nobody_counts_on_while_no_observer_watches(viewer: Client, now: Any, db: None) -> None:
    gone = a_cluster(observer_until=T0 + timedelta(minutes=5))
    a_gang_row(gone, "llm", placed=3)
    assert "2 GPU-hours" in said(text(viewer))


def test_a_node_that_blocks_leads_to_its_workflow_and_ticket(viewer: Client, cluster: Cluster) -> None:
    node = a_node(cluster, "gpu-r07-03")
    workflow = a_workflow(node)
    back = (NOW + timedelta(minutes=27)).isoformat()
    a_gang_row(cluster, "llm", **blocked_by("gpu-r07-03", workflow=workflow.pk, ticket="TKT-9", back_at=back))
    page = text(viewer)
    assert "It lacks 1 member, and would fit if gpu-r07-03 came back." in page
    assert f'href="/workflows/{workflow.pk}/">WF-{workflow.pk}</a>' in page
    assert 'href="/tickets/9/">TKT-9</a>' in page
    assert "would fit when gpu-r07-03 is back, about 03:47" in said(page)


def test_of_several_nodes_all_must_come_back(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm", **blocked_by("a", "b"))
    page = text(viewer)
    assert "1 of 2" in page
    assert "All 2 return" in page
    assert "nobody knows when" in said(page)


def test_the_one_that_holds_most_for_nothing_comes_first(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "small", placed=1)
    a_gang_row(cluster, "runs", placed=4)
    a_gang_row(cluster, "waits", placed=0)
    a_gang_row(cluster, "large", placed=3)
    assert titles(text(viewer)) == ["RayJob large", "RayJob small", "RayJob waits", "RayJob runs"]


def test_by_wait_the_longest_comes_first_and_by_queue_their_own_order(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "late", waits_since=T0 + timedelta(minutes=9), position=0)
    a_gang_row(cluster, "early", waits_since=T0, position=1)
    a_gang_row(cluster, "other", queue="a-queue", queue_key="volcano/Queue//a", waits_since=T0 + timedelta(minutes=5))
    assert titles(text(viewer, by="wait")) == ["RayJob early", "RayJob other", "RayJob late"]
    assert titles(text(viewer, by="queue")) == ["RayJob other", "RayJob late", "RayJob early"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"state": "waits"}, {"llm", "slurm"}),
        ({"state": "idle"}, {"llm"}),
        ({"state": "running"}, {"runs"}),
        ({"queue": "volcano/Queue//train"}, {"llm", "runs"}),
        ({"system": "slurm"}, {"slurm"}),
        ({"q": "TEAM-vision"}, {"slurm"}),
        ({"q": "train/ru"}, {"runs"}),
        ({"condition": "headroom_exact"}, {"llm"}),
        ({"condition": "no_such_code"}, {"llm", "runs", "slurm"}),
        ({"cluster": "nowhere"}, set()),
        ({"state": "nonsense"}, set()),
        ({"page": "99"}, set()),
        ({"page": "-1", "by": "nonsense"}, {"llm", "runs", "slurm"}),
    ],
)
def test_filters(viewer: Client, cluster: Cluster, query: dict[str, str], found: set[str]) -> None:
    a_condition(a_gang_row(cluster, "llm"))
    a_gang_row(cluster, "runs", placed=4)
    a_gang_row(cluster, "slurm", placed=0, system="slurm", owner="team-vision", queue_key="gpu", queue="gpu")
    assert {title.split()[-1] for title in titles(text(viewer, **query))} == found


def test_counts_keep_to_the_other_filters(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm")
    a_gang_row(cluster, "runs", placed=4)
    a_gang_row(cluster, "slurm", placed=0, system="slurm")
    page = text(viewer, system="volcano", state="running")
    assert "waiting <b>1</b>" in page
    assert "running <b>1</b>" in page
    assert "All <b>2</b>" in page


def test_a_gang_that_is_gone_is_on_no_list(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm", gone_at=T0)
    assert titles(text(viewer)) == []


def test_conditions_are_badges_and_are_summed_up(viewer: Client, cluster: Cluster) -> None:
    for name in ("llm", "vlm"):
        a_condition(a_gang_row(cluster, name))
    a_condition(a_gang_row(cluster, "over"), ended_at=T0)
    page = text(viewer)
    assert page.count('title="Group workers may have 4 replicas and wants 4: none to spare; 6 is enough."') == 2
    assert "2 gangs</span><small>A worker that dies on a node" in text(viewer, part="side")


def test_the_nodes_whose_return_sets_most_to_work_come_first(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "one", **blocked_by("gpu-1"))
    a_gang_row(cluster, "two", minimum=8, **blocked_by("gpu-2", "gpu-3"))
    helping = gang_list.helping(None)
    assert [(one.node, one.gpus, one.together) for one in helping] == [
        ("gpu-2", 64, ("gpu-3",)), ("gpu-3", 64, ("gpu-2",)), ("gpu-1", 32, ()),
    ]  # fmt: skip


def test_pages_are_cut_by_the_database(viewer: Client, cluster: Cluster) -> None:
    for number in range(gang_list.SIZE + 3):
        a_gang_row(cluster, f"g{number:02}", placed=0)
    first, second = text(viewer), text(viewer, page="2")
    assert len(titles(first)) == gang_list.SIZE
    assert len(titles(second)) == 3
    assert not set(titles(first)) & set(titles(second))
    assert f"{gang_list.SIZE + 1} to {gang_list.SIZE + 3}" in second


def test_of_another_cluster_nothing_is_told(now: Any, cluster: Cluster) -> None:
    other = a_cluster("busan-1")
    hidden = a_gang_row(other, "secret", **blocked_by("hidden-node"))
    a_queue_row(other, "hidden-queue")
    a_condition(hidden, "deadlock", facts={})
    a_gang_row(cluster, "llm", placed=0)
    reader = client_of("viewer", cluster.name)
    page = text(reader)
    page += text(reader, part="side")
    for word in ("secret", "hidden-node", "hidden-queue", "Gangs starve each other"):
        assert word not in page
    assert "held for nothing" in said(page)
    assert reader.get(f"/gangs/{hidden.pk}/").status_code == 404
    assert reader.get("/gangs/", {"key": hidden.key}).status_code == 404


def test_words_from_outside_are_escaped(viewer: Client, cluster: Cluster) -> None:
    row = a_gang_row(cluster, "llm", title=HOSTILE, owner=HOSTILE, queue=HOSTILE, namespace=HOSTILE,
                     **{**blocked_by(HOSTILE, text=HOSTILE, ticket=HOSTILE), "reason": because(HOSTILE)})  # fmt: skip
    a_condition(row, about=HOSTILE)
    a_queue_row(cluster, HOSTILE[:60], a_quota(flavor=HOSTILE, resource=HOSTILE))
    for path in ("/queues/", "/queues/?part=side", "/queues/quota/", f"/gangs/{row.pk}/", "/queues/what-if/"):
        page = text(viewer, path)
        assert "<script>alert" not in page
        assert "<img src=x" not in page


OWN = {"/queues/": 3, "/queues/?part=rows": 3, "/queues/?part=side": 4, "/queues/quota/": 2, "/queues/room/": 2}


@pytest.mark.parametrize("path", OWN)
def test_a_page_costs_the_same_with_few_and_with_many_gangs(viewer: Client, cluster: Cluster, path: str) -> None:
    def grow(first: int, count: int) -> None:
        for number in range(first, first + count):
            a_condition(a_gang_row(cluster, f"g{number}", **blocked_by(f"gpu-{number}")))
            a_queue_row(cluster, f"q{number}")

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            assert viewer.get(path).status_code == 200
        return len(seen)

    grow(0, 2)
    queries()
    few = queries()
    grow(2, 30)
    assert queries() == few <= FRAME + OWN[path]


def test_members_are_not_read_for_a_list(viewer: Client, cluster: Cluster) -> None:
    a_gang_row(cluster, "llm")
    with CaptureQueriesContext(connection) as seen:
        text(viewer)
    read = [one["sql"] for one in seen if '"gangs_gangrow"' in one["sql"]]
    assert read
    assert not [sql for sql in read if '"members"' in sql or '"objects_seen"' in sql]
