"""The fleet page out of the observer's blob: the same page as from the query, and the query when there is no blob."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import orjson
import pytest
import redis
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from dashboard import clock
from fleet.bus import outbox
from fleet.health.models import NodeVerdict
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.machine import NodeState
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.readmodels import fleet_blob, fleet_kept, fleet_map
from fleet.readmodels.fleet_blob import Publisher
from fleet.readmodels.fleet_kept import fetch
from tests.builders import T0, TestClock, a_cluster, a_node, a_workflow
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def forgotten(broker: redis.Redis) -> Iterator[None]:
    fleet_kept._read.clear()
    clock.use(TestClock())
    yield
    clock.use(SYSTEM_CLOCK)
    fleet_kept._read.clear()


@pytest.fixture
def fleet(db: None) -> Cluster:
    cluster = a_cluster()
    for n in range(6):
        a_node(cluster, f"gpu-{n}")
    sick = a_node(cluster, "gpu-sick", verdict="unhealthy", state=NodeState.DRAINING, unschedulable=True)
    a_workflow(sick, state="blocked", blocked_text="The cap is full.", blocked_until=T0 + timedelta(minutes=5))
    return cluster


def test_rows_survive_the_packing(fleet: Cluster) -> None:
    rows = fleet_map.rows(None)
    assert list(fleet_kept.unpack(fleet_blob.pack(rows))) == rows


def test_a_published_cluster_is_read_without_its_query_and_looks_the_same(viewer: Client, fleet: Cluster) -> None:
    queries = ["", "verdict=unhealthy", "view=table&sort=node", "q=gpu-1"]
    addresses = [f"/fleet/?{query}&part={part}" for query in queries for part in ("top", "table")]
    asked = [viewer.get(address).content for address in addresses]
    Publisher(fleet.pk, fleet.name, from_nodes=1).turn(7)
    for _ in range(2):
        with CaptureQueriesContext(connection) as seen:
            kept = [viewer.get(address).content for address in addresses]
        assert kept == asked
        assert not [q for q in seen.captured_queries if "inventory_node" in q["sql"]]
        assert len(seen) <= 5 * len(addresses)


def test_a_change_is_a_new_version_and_pages_hear_of_it(fleet: Cluster, broker: redis.Redis) -> None:
    publisher, hears = Publisher(fleet.pk, fleet.name, from_nodes=1), broker.pubsub(ignore_subscribe_messages=True)
    hears.subscribe("muster:hints")
    hears.get_message(timeout=1)
    publisher.turn(7)
    assert len(fetch([fleet.pk])[fleet.pk]) == 7
    publisher.turn(7)
    outbox.hint(
        orjson.dumps([{"topic": "node", "ref": "9", "node": a_node(fleet, "gpu-new").name, "cluster": fleet.pk}])
    )

    def told() -> bool:
        publisher.turn(8)  # a hint is on its way for a moment
        return len(fetch([fleet.pk])[fleet.pk]) == 8

    until(told)
    outbox.hint(b'[{"topic": "the end"}]')
    heard: list[str] = []
    while "the end" not in heard:
        message = hears.get_message(timeout=PATIENCE)
        assert message is not None
        heard += [hint["topic"] for hint in orjson.loads(message["data"])]
    assert heard == ["fleet", "node", "fleet", "the end"]


def test_without_a_blob_or_with_a_foreign_one_the_database_is_asked(
    viewer: Client, fleet: Cluster, broker: redis.Redis
) -> None:
    Publisher(fleet.pk, fleet.name).turn(7)
    assert fetch([fleet.pk]) == {}
    Publisher(fleet.pk, fleet.name, from_nodes=1).turn(7)
    broker.set(f"muster:fleet:{fleet.pk}:version", "0:old")
    assert fetch([fleet.pk]) == {}
    broker.set(f"muster:fleet:{fleet.pk}:version", f"{fleet_blob.FORM}:x")
    broker.set(f"muster:fleet:{fleet.pk}:rows", b"[[1]]")
    assert fetch([fleet.pk]) == {}
    assert "gpu-sick" in viewer.get("/fleet/").content.decode()


def test_a_redis_that_is_away_is_asked_once_and_the_page_stands(
    viewer: Client, fleet: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def away() -> redis.Redis:
        asked.append(1)
        raise redis.ConnectionError

    monkeypatch.setattr(fleet_kept, "_silent_until", 0.0)
    monkeypatch.setattr(fleet_kept.outbox, "connection", away)
    for _ in range(3):
        assert "gpu-sick" in viewer.get("/fleet/").content.decode()
    assert len(asked) == 1


def test_a_second_cluster_without_a_blob_is_in_the_page_too(viewer: Client, fleet: Cluster) -> None:
    a_node(a_cluster("west"), "gpu-west", verdict="degraded")
    Publisher(fleet.pk, fleet.name, from_nodes=1).turn(7)
    text = viewer.get("/fleet/?view=table").content.decode()
    assert "gpu-west" in text and "gpu-sick" in text


def test_what_somebody_may_not_see_is_not_in_it(fleet: Cluster) -> None:
    from tests.domain.dashboard_details.conftest import client_of

    west = a_cluster("west")
    a_node(west, "gpu-west")
    for cluster, count in ((fleet, 7), (west, 1)):
        Publisher(cluster.pk, cluster.name, from_nodes=1).turn(count)
    text = client_of("viewer", "west").get("/fleet/?view=table").content.decode()
    assert "gpu-west" in text and "gpu-sick" not in text


def say(fleet: Cluster, topic: str = "node", node: str = "", ref: str = "1") -> None:
    outbox.hint(orjson.dumps([{"topic": topic, "ref": ref, "node": node, "cluster": fleet.pk}]))
    outbox.connection().ping()  # the server writes to who listens before it reads the next command


def asked(publisher: Publisher) -> list[str]:
    """The queries of nodes that a turn costs."""
    outbox.connection().ping()
    with CaptureQueriesContext(connection) as seen:
        publisher.turn(7)
    return [query["sql"] for query in seen.captured_queries]


def test_where_nothing_is_heard_of_nothing_is_asked_and_the_rows_stay(fleet: Cluster, broker: redis.Redis) -> None:
    publisher = Publisher(fleet.pk, fleet.name, from_nodes=1)
    assert len(asked(publisher)) == 1
    before = fetch([fleet.pk])[fleet.pk]
    assert asked(publisher) == []
    assert fetch([fleet.pk])[fleet.pk] is before
    broker.delete(f"muster:fleet:{fleet.pk}:rows", f"muster:fleet:{fleet.pk}:version")
    assert asked(publisher) == []
    fleet_kept._read.clear()
    assert list(fetch([fleet.pk])[fleet.pk]) == fleet_map.rows(None)


def test_what_a_hint_names_is_asked_for_alone_and_a_reader_takes_only_that(
    fleet: Cluster, broker: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(fleet.pk, fleet.name, from_nodes=1)
    publisher.turn(7)
    fetch([fleet.pk])
    monkeypatch.setattr(fleet_kept, "unpack", lambda body: pytest.fail("all rows were read again"))
    for name in ("gpu-1", "gpu-4", "gpu-sick"):
        NodeVerdict.objects.filter(node__name=name).update(verdict="degraded", reason="Hot.")
        say(fleet, node=name)
        (query,) = asked(publisher)
        assert name in query and "gpu-2" not in query
        if name != "gpu-1":  # one version is skipped
            assert list(fetch([fleet.pk])[fleet.pk]) == fleet_map.rows(None)


@pytest.mark.parametrize("topic", ["mode", "incident", "policy"])
def test_hints_that_name_no_node_cost_nothing_but_those_of_the_whole_fleet_do(fleet: Cluster, topic: str) -> None:
    publisher = Publisher(fleet.pk, fleet.name, from_nodes=1)
    publisher.turn(7)
    say(fleet, topic)
    outbox.hint(orjson.dumps([{"topic": "node", "ref": "1", "node": "gpu-1", "cluster": fleet.pk + 1}]))
    assert asked(publisher) == []
    say(fleet, "fleet", ref=str(fleet.pk))
    assert len(asked(publisher)) == 1


def test_a_lost_hint_is_made_good_by_the_next_look_at_everything(
    fleet: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    publisher = Publisher(fleet.pk, fleet.name, from_nodes=1)
    publisher.turn(7)
    NodeVerdict.objects.filter(node__name="gpu-3").update(verdict="lost")
    Node.objects.filter(name="gpu-5").update(gone_at=T0)
    publisher.turn(7)
    assert len(fetch([fleet.pk])[fleet.pk]) == 7
    monkeypatch.setattr(fleet_blob, "ALL_EVERY", 0.0)
    publisher.turn(6)
    assert list(fetch([fleet.pk])[fleet.pk]) == fleet_map.rows(None)


def test_a_reader_that_is_too_far_behind_or_knew_another_observer_reads_all(fleet: Cluster) -> None:
    publisher = Publisher(fleet.pk, fleet.name, from_nodes=1)
    publisher.turn(7)
    fetch([fleet.pk])
    for n in range(fleet_blob.CHANGES_KEPT + 2):
        NodeVerdict.objects.filter(node__name="gpu-3").update(reason=f"{n}")
        say(fleet, node="gpu-3")
        publisher.turn(7)
    assert list(fetch([fleet.pk])[fleet.pk]) == fleet_map.rows(None)
    NodeVerdict.objects.filter(node__name="gpu-2").update(verdict="lost")
    Publisher(fleet.pk, fleet.name, from_nodes=1).turn(7)
    assert list(fetch([fleet.pk])[fleet.pk]) == fleet_map.rows(None)
