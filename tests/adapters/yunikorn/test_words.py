"""YuniKorn's words and numbers as its releases write them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.yunikorn.applications import application, meaning
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
        ("what no release says", "UNKNOWN"),
    ],
)
def test_its_words_mean_one_thing(words: str, code: str) -> None:
    assert meaning(words) == code


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
