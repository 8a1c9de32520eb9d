"""Twelve GPUs of one rack fail at once: all are held, two at a time heal, everybody says why it waits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.labs.conftest import Fleet
from tests.labs.live import until

AT_ONCE, CAP = 12, 2


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {"nodes": 128, "speed": 2.0}


def test_all_are_held_at_once_and_two_at_a_time_reboot(fleet: Fleet) -> None:
    live = fleet.live
    rack, nodes = next((rack, nodes[:AT_ONCE]) for rack, nodes in live.racks().items() if rack == "r03")
    boots = {node: live.boot_id(node) for node in nodes}
    for node in nodes:
        live.inject("xid79", node, 0)
    took = until(lambda: all(live.cordoned(node) for node in nodes), 30)
    print("twelve at once, all held after", took)
    assert took is not None and took <= 3.0
    waiting = 0
    for node in nodes[4:]:
        told = live.why(node)
        blocked = told["blocked"]
        if blocked is None:
            assert told["workflow"], told
            continue
        waiting += 1
        assert blocked["reason"] and blocked["text"] and blocked["since"], told
        assert datetime.fromisoformat(blocked["until"]) > datetime(2000, 1, 1, tzinfo=UTC)
    assert waiting >= 5
    healed = until(lambda: all(live.healed(node, boot) for node, boot in boots.items()), 600, 1.0)
    print("all healed after", healed)
    stats = live.stats()
    assert healed is not None
    assert stats["out_max"]["rack"][rack] <= CAP
    assert {node: stats["boots"].get(node) for node in nodes} == dict.fromkeys(nodes, 1)
