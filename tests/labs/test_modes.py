"""Observe writes nothing and shows the plan; raising the mode looks anew and begins with one node."""

from __future__ import annotations

import time

from tests.labs.conftest import Fleet
from tests.labs.live import until

PLAN = ["hold", "drain", "reboot", "validate", "soak", "return"]


def test_observe_plans_and_writes_nothing_and_automate_begins_with_one(fleet: Fleet) -> None:
    live = fleet.live
    first = fleet.fresh()
    boot = live.boot_id(first)
    live.inject("xid79", first, 0)
    assert until(lambda: live.healed(first, boot), 120, 0.3) is not None
    done = [step["verb"] for step in live.workflows(first)[-1]["plan"]]
    assert live.manage("cluster", "mode", "demo", "observe").returncode == 0
    time.sleep(2)
    before = live.stats()["writes"]
    sick = [fleet.fresh() for _ in range(3)]
    boots = {node: live.boot_id(node) for node in sick}
    for node in sick:
        live.inject("xid79", node, 2)
    assert until(lambda: all(live.workflows(node) for node in sick), 10) is not None
    time.sleep(15)
    told = [live.why(node) for node in sick]
    assert live.stats()["writes"] == before
    assert [answer["would"] for answer in told] == [PLAN] * 3 == [done] * 3
    assert all(answer["workflow"]["state"] == "planned" for answer in told)
    assert "would" in fleet.web.words(f"/nodes/{sick[0]}/").lower()
    plans = {row["id"] for node in sick for row in live.workflows(node)}

    assert live.manage("cluster", "mode", "demo", "automate").returncode == 0
    assert until(lambda: any(live.cordoned(node) for node in sick), 15) is not None
    out = 0
    deadline = time.monotonic() + 180
    while time.monotonic() < deadline and not any(live.healed(node, boots[node]) for node in sick):
        booting = [node for node in sick if not live.state(node)["kubelet"]]
        out = max(out, len(booting))
        time.sleep(0.1)
    assert out == 1, "after a raised mode one node goes first"
    assert until(lambda: all(live.healed(node, boots[node]) for node in sick), 240, 0.5) is not None
    assert {
        row["state"] for row in live.rows("select state from lifecycle_workflow where id = any(%s)", list(plans))
    } == {"cancelled"}
    assert {node: live.boots(node) for node in sick} == dict.fromkeys(sick, 1)
