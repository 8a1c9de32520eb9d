"""YuniKorn's words and numbers as its releases write them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.yunikorn.applications import application, meaning
from fleet.adapters.yunikorn.queues import tree
from fleet.ports.gangs import GangObject


def told(**facts: Any) -> GangObject:
    raw = {"applicationID": "llm-1", "applicationState": "Accepted", "queueName": "root.train", **facts}
    return application(raw, frozenset(), frozenset())


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("Not enough queue quota", "QUOTA"),
        ("application has reached its user limit", "QUOTA"),
        ("resource quota exceeded: train", "QUOTA"),
        ("application rejected: failed to find queue root.b", "QUEUE_STOPPED"),
        ("queue root.a is currently stopped", "QUEUE_STOPPED"),
        ("failed to place application: no placement rule matched", "QUEUE_STOPPED"),
        ("node is not schedulable: gpu-3", "NODE_UNHEALTHY"),
        ("not enough resources", "CAPACITY"),
        ("0/4 nodes are available: 4 Insufficient nvidia.com/gpu", "CAPACITY"),
        ("node(s) didn't match Pod's node affinity", "CAPACITY"),
        ("node(s) had taint {role: db}, that the pod didn't tolerate", "CAPACITY"),
        ("node(s) had untolerated taint {node.kubernetes.io/unschedulable: }", "NODE_UNHEALTHY"),
        ("node(s) didn't match pod affinity rules", "TOPOLOGY"),
        ("what no release says", "UNKNOWN"),
    ],
)
def test_its_words_mean_one_thing(words: str, code: str) -> None:
    assert meaning(words) == code


@pytest.mark.parametrize("times", [(3, 2), (None, None), (16_487_540_320_812_346_001, 16_487_540_320_812_346_003)])
def test_of_words_without_a_time_that_can_be_read_the_last_counts(times: tuple[int | None, int | None]) -> None:
    log = [{"message": word, "lastOccurrence": at} for word, at in zip(("first", "second"), times, strict=True)]
    (said,) = told(requests=[{"allocationLog": log}]).said
    assert said.text == ("first" if times == (3, 2) else "second")


@pytest.mark.parametrize(("leaf", "waiting"), [(True, 0), ("true", 0), (False, None), ("false", None), (None, None)])
def test_a_leaf_may_be_told_as_text(leaf: Any, waiting: int | None) -> None:
    (queue,) = tree({"queuename": "root.a", "isLeaf": leaf}, "default", {})
    assert queue.waiting == waiting


def test_numbers_may_be_told_as_text() -> None:
    groups = [{"taskGroupName": "worker", "count": "4", "minResource": {"nvidia.com/gpu": "8", "vcore": "x"}}]
    (part,) = told(placeholderData=groups).parts
    assert part.need is not None
    assert (part.wanted, part.need.gpus, part.need.cpu_millis) == (4, 8, 0)


@pytest.mark.parametrize(("priority", "found"), [(-(2**31), 0), (None, 0), (-5, -5), (7, 7)])
def test_an_application_without_requests_has_no_priority(priority: int | None, found: int) -> None:
    assert told(maxRequestPriority=priority).priority == found


def test_lists_that_are_not_there_are_empty() -> None:
    nothing = dict.fromkeys(("requests", "allocations", "stateLog", "placeholderData", "reservations"))
    one = told(**nothing)
    assert (one.said, one.parts, one.wanted, one.planned_nodes, one.guarantee) == ((), (), None, (), "none")
