"""A first connection finds forty foreign cordons and three hundred old Xids: nothing is ours, nothing is new."""

from __future__ import annotations

import time

import pytest

from tests.labs.conftest import Fleet
from tests.labs.live import ENDED, until


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {"nodes": 128, "speed": 4.0, "scenario": "foreign"}


def _cordons(fleet: Fleet) -> set[str]:
    return {node["metadata"]["name"] for node in fleet.live.nodes() if node["spec"].get("unschedulable")}


def test_old_evidence_plans_and_writes_nothing(fleet: Fleet) -> None:
    cordons = _cordons(fleet)
    assert len(cordons) == 40
    time.sleep(60)
    assert fleet.live.rows("select id from lifecycle_workflow") == []
    assert fleet.live.rows("select id, title from health_incident") == []
    assert fleet.live.stats()["writes"].get("patch nodes", 0) == 0
    assert _cordons(fleet) == cordons


def test_a_new_fault_on_a_busy_foreign_cordon_waits_for_the_cap(fleet: Fleet) -> None:
    """Forty of a hundred and twenty-eight are out already; taking work from one more is not ours to decide."""
    live = fleet.live
    cordons = _cordons(fleet)
    node = next(name for name in fleet.spare if name in cordons and live.work_on(name))
    fleet.spare.remove(node)
    live.inject("xid79", node, 1)
    assert until(lambda: bool(live.why(node)["blocked"]), 20, 0.5) is not None
    time.sleep(3)
    blocked = live.why(node)["blocked"]
    assert blocked["reason"] == "cap_take_out"
    assert "out of service" in blocked["text"] and blocked["until"]
    assert live.boots(node) == 0


def test_a_new_fault_on_an_idle_foreign_cordon_heals_and_leaves_the_cordon(fleet: Fleet) -> None:
    live = fleet.live
    cordons = _cordons(fleet)
    node = next(name for name in fleet.spare if name in cordons)
    for pod in live.work_on(node):
        live.evict_as_a_person(pod)
    assert until(lambda: not live.work_on(node), 30, 0.2) is not None
    time.sleep(1)
    boot = live.boot_id(node)
    live.inject("xid79", node, 5)
    ended = until(lambda: any(row["state"] in ENDED for row in live.workflows(node)), 120, 0.3)
    assert ended is not None, live.why(node)
    assert live.workflows(node)[-1]["state"] == "succeeded"
    assert live.boot_id(node) != boot and live.boots(node) == 1
    assert "muster.dev/hold" not in live.node(node)["metadata"].get("annotations", {})
    assert _cordons(fleet) == cordons
