"""A whole reading of a YuniKorn, and what it says when parts of it are missing or odd."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings

from fleet.adapters import yunikorn
from fleet.adapters.yunikorn import applications, queues
from fleet.adapters.yunikorn.reading import YunikornPoll
from fleet.gangs.counting import count
from fleet.gangs.joining import join
from fleet.ports.errors import MissingRight, PermanentError, PortError, TemporaryError
from fleet.ports.gangs import GangPoll, Quota
from tests.adapters.prometheus.fake_api import FakeApi, running
from tests.adapters.ray.test_dashboard import ODD, bent
from tests.adapters.yunikorn.shapes import GPU, a_node, a_queue, a_request, an_allocation, an_application

ACTIVE, QUEUES, NODES = (f"/ws/v1/partition/default/{part}" for part in ("applications/active", "queues", "nodes"))


def body(value: Any) -> bytes:
    return json.dumps(value).encode()


@pytest.fixture
def api() -> Iterator[FakeApi]:
    told = {
        "/ws/v1/partitions": body([{"clusterId": "c", "name": "[c]default", "state": "Active"}]),
        ACTIVE: body([an_application(), an_application("Accepted", applicationID="two", requests=[a_request("x")])]),
        QUEUES: body(a_queue("root", a_queue())),
        NODES: body([a_node("gpu-0"), a_node("gpu-1", schedulable=False)]),
    }
    with running(FakeApi(at=told)) as found:
        yield found


def poll(api: FakeApi) -> YunikornPoll:
    found = yunikorn.poll(yunikorn.Connection(f"{api.url}/", timeout=2.0))
    checked: GangPoll = found
    assert checked.system == "yunikorn"
    return found


def test_applications_and_queues_are_one_reading(api: FakeApi) -> None:
    found = poll(api).read()
    assert [one.ref.name for one in found.objects] == ["llm", "two"] and found.troubles == ()
    assert found.members == () and found.offers == (), "pods and nodes are told by the API server"
    root, train = found.queues
    assert (root.ref.name, root.waiting, train.ref.key, train.parent) == (
        "root", None, "yunikorn/Queue//root.train", "root",
    )  # fmt: skip
    assert train.quotas == (Quota("", GPU, 16.0, 24.0, None, 8.0, 64.0, 32.0),)
    assert (train.share, train.waiting, train.running, train.stopped) == (1.5, 1, 2, False)


@pytest.mark.parametrize("status", ["Draining", "Stopped"])
def test_a_queue_that_takes_no_more_is_stopped(status: str) -> None:
    (one,) = queues.tree(a_queue(status=status), "default", {})
    assert one.stopped and status in one.said[0].text


def test_what_is_bounded_by_nobody_has_no_bound() -> None:
    (one,) = queues.tree(a_queue(maxResource={"memory": 1}, guaranteedResource=None), "default", {})
    assert (one.quotas[0].guaranteed, one.quotas[0].ceiling, one.quotas[0].borrowed, one.share) == (None, None, 0, None)


def test_a_parent_that_is_full_stops_all_below_it() -> None:
    tree = a_queue("root", a_queue("root.a", a_queue("root.a.b")), a_queue("root.c"), maxRunningApps=2)
    assert sorted(queues.is_full(tree)) == ["root", "root.a", "root.a.b", "root.c"]
    below = a_queue("root", a_queue("root.a", maxRunningApps=2), a_queue("root.c", maxRunningApps=3))
    assert list(queues.is_full(below)) == ["root.a"]


@pytest.mark.parametrize(("path", "words"), [(QUEUES, "Queues are not known"), (NODES, "Nodes are not known")])
def test_what_stands_beside_may_be_missing_and_that_is_said(api: FakeApi, path: str, words: str) -> None:
    api.at[path] = b"<html>"
    found = poll(api).read()
    assert len(found.objects) == 2 and len(found.troubles) == 1 and words in found.troubles[0]


def test_without_applications_there_is_no_reading(api: FakeApi) -> None:
    api.at[ACTIVE] = b"no"
    with pytest.raises(TemporaryError):
        poll(api).read()


@pytest.mark.parametrize(
    ("status", "kind"), [(403, MissingRight), (302, PermanentError), (404, PermanentError), (500, TemporaryError)]
)
def test_refusals_say_who_must_do_something(api: FakeApi, status: int, kind: type[PortError]) -> None:
    api.status = status
    api.headers = {"Location": f"{api.url}/elsewhere"}
    with pytest.raises(kind):
        poll(api).read()
    assert len(api.asked) == 1


def test_nobody_there_is_a_temporary_trouble() -> None:
    with pytest.raises(TemporaryError):
        yunikorn.poll(yunikorn.Connection("http://127.0.0.1:9", timeout=1.0)).read()


EXAMPLE = an_application("Accepted", requests=[a_request("x")], allocations=[an_allocation("gpu-0", placeholder=True)])


@settings(max_examples=150, deadline=None)
@given(bent(EXAMPLE), bent(a_queue("root", a_queue())), ODD)
def test_no_odd_field_stops_the_reading(raw: Any, queue: Any, odd: Any) -> None:
    if isinstance(raw, dict):
        one = applications.application(raw, frozenset(), frozenset())
        for joined in join([one], []).values():
            assert count(joined).wanted >= 0
    for tree in (queue, odd):
        if isinstance(tree, dict):
            list(queues.is_full(tree))
            assert all(quota.used >= 0 for one in queues.tree(tree, "default", {}) for quota in one.quotas)
