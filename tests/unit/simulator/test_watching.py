"""Watches: what arrives, in which words, and how they end."""

import http.client
import json
import time

import pytest

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.patience import until
from tests.unit.simulator.client import Client


def test_changes_arrive_in_order(fleet: Client) -> None:
    version = fleet.get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    fleet.patch_node("gpu-r01-01", {"metadata": {"annotations": {"a": "1"}}})
    fleet.patch_node("gpu-r01-01", {"metadata": {"annotations": {"a": "2"}}})
    seen = []
    for event in fleet.watch("/api/v1/nodes", resourceVersion=version, fieldSelector="metadata.name=gpu-r01-01"):
        assert event["type"] == "MODIFIED"
        assert event["object"]["kind"] == "Node"
        seen.append((event["object"]["metadata"]["annotations"]["a"], event["object"]["metadata"]["resourceVersion"]))
        if len(seen) == 2:
            break
    assert [value for value, _ in seen] == ["1", "2"]
    assert int(seen[0][1]) < int(seen[1][1])


def test_without_a_version_what_is_there_comes_first(fleet: Client) -> None:
    events = fleet.watch("/api/v1/nodes", labelSelector="topology.muster.dev/rack=r01")
    names = [next(events)["object"]["metadata"]["name"] for _ in range(16)]
    assert names == sorted(names)


def test_a_selecting_watch_sees_objects_come_and_go(fleet: Client) -> None:
    version = fleet.get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    fleet.patch_node("gpu-r01-01", {"metadata": {"labels": {"tried": "yes"}}})
    fleet.patch_node("gpu-r01-01", {"metadata": {"labels": {"tried": None}}})
    events = fleet.watch("/api/v1/nodes", resourceVersion=version, labelSelector="tried=yes")
    assert [next(events)["type"], next(events)["type"]] == ["ADDED", "DELETED"]


def test_bookmarks_carry_the_version(fleet: Client) -> None:
    version = fleet.get("/api/v1/namespaces", limit=1)["metadata"]["resourceVersion"]
    events = fleet.watch("/api/v1/namespaces", resourceVersion=version, allowWatchBookmarks="true")
    bookmark = next(events)
    assert bookmark["type"] == "BOOKMARK"
    assert int(bookmark["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_a_watch_ends_after_its_time(fleet: Client) -> None:
    version = fleet.get("/api/v1/namespaces", limit=1)["metadata"]["resourceVersion"]
    began = time.monotonic()
    assert list(fleet.watch("/api/v1/namespaces", resourceVersion=version, timeoutSeconds=1)) == []
    assert time.monotonic() - began >= 0.8


def test_too_old_a_version_is_an_error_event(fleet: Client) -> None:
    version = fleet.get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    for number in range(250):
        fleet.patch_node("gpu-r01-01", {"metadata": {"annotations": {"n": str(number)}}})
    events = list(fleet.watch("/api/v1/nodes", resourceVersion=version))
    assert [e["type"] for e in events] == ["ERROR"]
    assert (events[0]["object"]["code"], events[0]["object"]["reason"]) == (410, "Expired")


def test_compaction_can_also_answer_410_over_http(fleet: Client) -> None:
    version = fleet.get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    fleet.inject("watch_gone")
    answer = fleet.call("GET", f"/api/v1/nodes?watch=true&resourceVersion={version}")
    assert (answer.status, answer.json["reason"]) == (410, "Expired")


def test_watches_can_be_cut_in_the_middle_of_a_line(fleet: Client) -> None:
    version = fleet.get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    events = fleet.watch("/api/v1/nodes", resourceVersion=version)
    fleet.patch_node("gpu-r01-01", {"metadata": {"annotations": {"a": "1"}}})
    next(events)
    fleet.inject("watch_cut")
    with pytest.raises((http.client.IncompleteRead, json.JSONDecodeError)):
        while True:
            next(events)


def test_open_watches_do_not_delay_the_end(options: Options) -> None:
    with running(options) as simulator:
        client = Client(simulator)
        events = client.watch("/api/v1/nodes", timeoutSeconds=60)
        next(events)
        began = time.monotonic()
    assert time.monotonic() - began < 60 / 2


def test_a_watcher_that_hangs_up_is_forgotten(fleet: Client) -> None:
    events = fleet.watch("/api/v1/nodes", timeoutSeconds=60)
    next(events)
    world = fleet.simulator.world
    assert world is not None
    until(lambda: len(world.store["nodes"].followers) == 1)
    events.close()
    until(lambda: not world.store["nodes"].followers)
