"""One gang's page, the node's card, the fleet's line, quotas, room and what-ifs."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest import MonkeyPatch

from fleet.gangs import asking, board
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.questions import Question
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import queue_minutes
from fleet.readmodels.gang_page import moment
from tests.architecture.sources import ROOT
from tests.builders import a_cluster, a_node
from tests.domain.dashboard_details.conftest import NOW
from tests.gang_answers import answering
from tests.gang_rows import (
    a_condition,
    a_gang_row,
    a_moment,
    a_queue_row,
    a_quota,
    an_ending,
    because,
    blocked_by,
    minutes_of,
)
from tests.unit.gangs.scenes import OUT, a_gang, a_room

RACK = "topology.muster.dev/rack"


def text(client: Client, path: str, **query: Any) -> str:
    answer = client.get(path, query)
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def said(page: str) -> str:
    start = page.index('class="said"')
    return re.sub(r"<[^>]+>", "", page[start : page.index("</p>", start)])


def watched() -> Cluster:
    return a_cluster(observer_until=SYSTEM_CLOCK.now() + timedelta(minutes=5))


def a_board() -> Board:
    rooms = [a_room(f"gpu-{n}", used, labels={RACK: f"r{n % 2}"}) for n, used in enumerate((8, 6, 0, 4))]
    gangs = {gang.key: gang for gang in (a_gang("llm", 3), a_gang("runs", 1, 1))}
    return board.read(gangs, [], Rooms([*rooms, a_room("out", out=OUT, labels={RACK: "r1"})]))


def test_the_page_answers_what_why_since_when_and_what_next(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", **blocked_by("gpu-r07-03", back_at=(NOW + timedelta(minutes=5)).isoformat()))
    told = said(text(viewer, f"/gangs/{gang.pk}/"))
    for part in (
        "Partly placed for 20 min, 3 of 4 placed.", "It lacks 1 member, and would fit if gpu-r07-03 came back.",
        "It has held 24 GPUs for nothing for 20 min: 8 GPU-hours.", "Next: gpu-r07-03 comes back, about 03:25.",
    ):  # fmt: skip
        assert part in told


def test_members_lie_on_a_map_by_the_verdict_of_their_nodes(viewer: Client, cluster: Cluster) -> None:
    a_node(cluster, "gpu-1", verdict="unhealthy")
    gang = a_gang_row(cluster, "llm", placed=2, nodes=["gpu-1", "nobody-knows-it"])
    page = text(viewer, f"/gangs/{gang.pk}/")
    assert '<a class="n bad" href="/nodes/gpu-1/?cluster=demo" aria-label="gpu-1, unhealthy' in page
    assert '<a class="n unk" href="/nodes/nobody-knows-it/' in page
    assert "2 members nowhere" in page


def test_who_keeps_it_from_running_comes_first(viewer: Client, cluster: Cluster) -> None:
    members = [["t/a", "n", "ready", "", 8, "", "", ""], ["t/b", "n", "placed", "", 8, "", "ImagePullBackOff", ""],
               ["t/c", "", "pending", "", 8, "no node", "", ""]]  # fmt: skip
    page = text(viewer, f"/gangs/{a_gang_row(cluster, 'llm', members=members).pk}/")
    places = [page.index(f'title="t/{name}"') for name in "bca"]
    assert places == sorted(places)
    assert "ImagePullBackOff" in page


def test_large_gangs_show_their_members_by_pages(viewer: Client, cluster: Cluster) -> None:
    members = [[f"t/m-{n:04}", "", "pending", "", 8, "", "", ""] for n in range(230)]
    gang = a_gang_row(cluster, "llm", placed=0, members=members)
    page = text(viewer, f"/gangs/{gang.pk}/", members="3")
    assert "201 to 230" in page and "m-0229" in page and "m-0000" not in page


def test_the_timeline_tells_states_reasons_and_conditions(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm")
    a_moment(gang, 1, "state", "partial", placed=3, minimum=4, gpus_held=24)
    a_moment(gang, 2, "reason", "QUOTA", raw="queue resource quota insufficient", nodes=[])
    a_moment(gang, 3, "condition", "headroom_exact", about="w", maximum=4, replicas=4, spare=0, enough=6)
    a_moment(gang, 4, "condition", "headroom_exact", about="w", ended=True)
    a_moment(gang, 5, "something", "new_in_a_later_release")
    page = text(viewer, f"/gangs/{gang.pk}/")
    for part in ("3 of 4 placed, 24 GPUs held.", "It waits: Quota.", "Group w may have 4 replicas",
                 "Over: No headroom.", "new_in_a_later_release"):  # fmt: skip
        assert part in page


WRITTEN = sorted(
    {
        kind
        for path in (ROOT / "fleet").rglob("*.py")
        for call in re.findall(r"GangMoment\((.*?)\)$", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
        for kind in re.findall(r'kind="(\w+)"', call)
    }
)


@pytest.mark.parametrize("kind", WRITTEN)
def test_every_kind_of_line_that_is_written_is_told_in_a_sentence(cluster: Cluster, kind: str) -> None:
    what = {"condition": "headroom_exact", "state": "running", "reason": "QUOTA"}.get(kind, "FAILED")
    told = moment(a_moment(a_gang_row(cluster, "llm"), 1, kind, what))
    assert told.lead.endswith(".") and told.lead != what


def test_the_kinds_of_lines_are_found() -> None:
    assert {"gone", "condition", "ending"} <= set(WRITTEN)


def test_an_older_rows_facts_do_not_break_the_page(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", reason={}, blockers=[{"node": "x", "members": 1}])
    a_condition(gang, "headroom_exact", facts={})
    page = text(viewer, f"/gangs/{gang.pk}/")
    assert "Set maxReplicas two above the need." in page


def test_what_was_known_at_a_failure_is_kept(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", gone_at=NOW - timedelta(minutes=3))
    an_ending(gang)
    page = text(viewer, f"/gangs/{gang.pk}/")
    assert "It went away 3 min ago." in said(page)
    for part in ("Black box", "OutOfMemoryError", "OOMKilled", "the dashboard did not answer"):
        assert part in page


def test_a_key_leads_to_its_page(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm")
    answer = viewer.get("/gangs/", {"key": gang.key, "cluster": cluster.name})
    assert answer.headers["Location"] == f"/gangs/{gang.pk}/"
    assert viewer.get("/jump/", {"q": "RayJob llm"}).headers["Location"] == f"/gangs/{gang.pk}/"


def test_a_gangs_page_costs_the_same_whatever_its_size(viewer: Client, cluster: Cluster) -> None:
    small = a_gang_row(cluster, "small", **blocked_by("gpu-0"))
    a_condition(small)
    nodes = [a_node(cluster, f"gpu-{n}").name for n in range(40)]
    large = a_gang_row(cluster, "large", placed=40, minimum=50, nodes=nodes, **blocked_by(*nodes))
    for n in range(30):
        a_condition(large, about=f"w{n}")
        a_moment(large, n, "state", "partial")
    counts = []
    for gang in (small, large):
        viewer.get(f"/gangs/{gang.pk}/")
        with CaptureQueriesContext(connection) as seen:
            viewer.get(f"/gangs/{gang.pk}/")
        counts.append(len(seen))
    assert counts[0] == counts[1] <= 4 + 7


def test_the_observer_says_what_would_let_it_start(viewer: Client) -> None:
    cluster = watched()
    gang = a_gang_row(cluster, "llm", placed=0, minimum=3, **blocked_by("out"))
    gang.__class__.objects.filter(pk=gang.pk).update(key="volcano/PodGroup/train/llm")
    with answering(cluster.pk, a_board()):
        page = text(viewer, f"/gangs/{gang.pk}/", part="what-if")
    assert "out returns" in page
    assert "It brings 8 GPUs." in page


def test_without_an_answer_it_is_not_known(viewer: Client, monkeypatch: MonkeyPatch) -> None:
    gang = a_gang_row(watched(), "llm", **blocked_by("out"))
    monkeypatch.setattr(asking.ask, "__defaults__", (0.05,))
    page = text(viewer, f"/gangs/{gang.pk}/", part="what-if")
    assert "not known yet" in page and "would fit" not in page


def test_an_observer_without_a_board_answers_nothing(cluster: Cluster) -> None:
    with answering(cluster.pk, None):
        assert asking.ask(cluster.pk, [Question("room")], 0.2) is None


def test_of_many_askers_each_gets_his_own_answer(cluster: Cluster) -> None:
    with answering(cluster.pk, a_board()):
        first = asking.ask(cluster.pk, [Question("return", ("out",)), Question("return", ("nowhere",))])
        second = asking.ask(cluster.pk, [Question("drain", ("gpu-1",))])
    assert first is not None and second is not None
    assert [one.unknown for one in first.answers] == [(), ("nowhere",)]
    assert [one.key for one in second.answers[0].broken] == []


def test_a_node_names_the_gangs_that_run_there_and_wait_for_it(viewer: Client, cluster: Cluster) -> None:
    a_node(cluster, "gpu-1")
    a_gang_row(cluster, "runs", placed=4, nodes=["gpu-1", "gpu-2", "gpu-3", "gpu-4"])
    a_gang_row(cluster, "waits", **blocked_by("gpu-1", "gpu-9"))
    a_gang_row(cluster, "other", nodes=["gpu-10"], placed=1, minimum=1)
    page = text(viewer, "/nodes/gpu-1/", part="gangs")
    assert "1 gang waits for this node" in page and "it is one of 2 that must come back" in page
    assert "RayJob runs" in page and "RayJob other" not in page


def test_a_node_that_serves_tells_what_its_drain_would_break(viewer: Client) -> None:
    cluster = watched()
    a_node(cluster, "gpu-0")
    with answering(cluster.pk, a_board()):
        page = text(viewer, "/nodes/gpu-0/", part="what-if")
    assert "gpu-0 is drained" in page
    assert "PodGroup runs loses 1 member and breaks (0 of 1), and could form again elsewhere." in page


def test_the_fleet_page_tells_what_is_held_for_nothing(
    viewer: Client, cluster: Cluster, django_assert_num_queries: Any
) -> None:
    a_node(cluster, "gpu-1")
    a_gang_row(cluster, "one", placed=1)
    a_gang_row(cluster, "two", placed=1, gpus_per_member=4)
    viewer.get("/fleet/")
    with django_assert_num_queries(5):
        page = text(viewer, "/fleet/")
    assert '<a href="/queues/?state=idle">12 GPUs held idle by 2 gangs</a>' in page
    assert '<span>Queues</span><span class="n">2</span>' in page


def test_quotas_say_what_is_used_borrowed_and_bounded(viewer: Client, cluster: Cluster) -> None:
    a_queue_row(cluster, "batch", a_quota(guaranteed=32.0, used=64.0, borrowed=32.0, ceiling=64.0))
    a_queue_row(cluster, "open", a_quota(ceiling=None, reserved=48.0, used=40.5), system="kueue", share=0.0)
    a_gang_row(cluster, "llm", queue_key="volcano/Queue//batch")
    page = text(viewer, "/queues/quota/")
    assert "1 queue is full: batch." in said(page)
    for part in ("no bound", "48 reserved", "<b>40.5</b>", "0: under its nominal quota", "24 GPUs idle"):
        assert part in page


def test_a_local_queue_counts_for_the_one_it_leads_to(viewer: Client, cluster: Cluster) -> None:
    a_queue_row(cluster, "cq", system="kueue", kind="ClusterQueue", key="kueue/ClusterQueue//cq")
    local = {"system": "kueue", "kind": "LocalQueue", "namespace": "train", "leads_to": "cq", "quotas": []}
    a_queue_row(cluster, "lq", key="kueue/LocalQueue/train/lq", **local)
    a_gang_row(cluster, "llm", queue_key="kueue/LocalQueue/train/lq")
    page = text(viewer, "/queues/quota/")
    assert "by</span>" not in page and "train/lq" in page
    assert "<b>1 wait</b>, 1 in all" in page


def test_utilisation_and_waiting_are_drawn_over_one_axis(viewer: Client, cluster: Cluster) -> None:
    minutes_of(cluster, NOW, 60)
    page = text(viewer, "/queues/room/", range="6h")
    assert "70% of the GPUs work, 15% are held for nothing; the median wait is 21 min." in said(page)
    assert "4 whole nodes are free; packed tightly, 8 would be." in said(page)
    assert page.count('class="work" d="M') == 2  # the key's and the chart's


def test_a_gap_is_a_gap(cluster: Cluster) -> None:
    minutes_of(cluster, NOW - timedelta(hours=3), 10)
    minutes_of(cluster, NOW, 10)
    buckets = queue_minutes.read(cluster.pk, NOW - timedelta(hours=6), NOW)
    from dashboard.charts.pulling import draw

    drawn = draw(buckets, NOW - timedelta(hours=6), NOW, queue_minutes.step_of(timedelta(hours=6)))
    assert drawn is not None
    assert drawn.median.count("M") == 2


@pytest.mark.parametrize("hours", [6, 24, 24 * 7, 24 * 30])
def test_whatever_the_range_there_are_few_points(hours: int) -> None:
    span = timedelta(hours=hours)
    assert span / queue_minutes.step_of(span) <= queue_minutes.POINTS


def test_the_room_as_the_observer_sees_it(viewer: Client) -> None:
    cluster = watched()
    with answering(cluster.pk, a_board()):
        page = text(viewer, "/queues/room/", part="now")
    assert "14 of 32 GPUs are free; 2 nodes are partly used." in page
    assert RACK in page


def test_a_what_if_by_its_address(viewer: Client) -> None:
    cluster = watched()
    a_gang_row(cluster, "runs", placed=1)
    with answering(cluster.pk, a_board()):
        page = text(viewer, "/queues/what-if/", kind="drain", nodes="gpu-0, gpu-1")
    assert "If gpu-0, gpu-1 are drained: PodGroup runs loses 1 member and breaks" in said(page)
    assert "Ask before you act." in said(text(viewer, "/queues/what-if/"))


def test_who_reasons_is_told_with_the_numbers(viewer: Client, cluster: Cluster) -> None:
    gang = a_gang_row(cluster, "llm", placed=0, reason_code="FRAGMENTATION",
                      reason=because(needs=32, free=40, slots=2, lacking=4))  # fmt: skip
    page = text(viewer, f"/gangs/{gang.pk}/")
    assert (
        "It lacks 4 members with 32 GPUs. 40 GPUs are free where it may run, but scattered: only 2 would fit." in page
    )


@pytest.mark.parametrize(
    ("path", "name"),
    [("/queues/", "by"), ("/queues/", "condition"), ("/queues/", "queue"), ("/queues/", "system"),
     ("/queues/what-if/", "kind"), ("/queues/what-if/", "nodes"), ("/queues/what-if/", "gang"),
     ("/queues/room/?part=now", "level"), ("/gangs/", "key"), ("/gangs/{pk}/", "members"), ("/api/v1/what-if", "drain"),
     ("/api/v1/what-if", "suspend"), ("/api/v1/gangs", "queue")],
)  # fmt: skip
def test_odd_words_in_an_address_fail_nothing(viewer: Client, cluster: Cluster, path: str, name: str) -> None:
    gang = a_gang_row(cluster, "llm")
    for odd in ("'", '"', "%", "²", "-1", "9" * 30, "x" * 5000, "a/b/c", "\u202e", "a,,b", "[]"):
        answer = viewer.get(path.format(pk=gang.pk), {name: odd, "kind": "suspend", "part": "now"})
        assert answer.status_code < 500, (name, odd)
