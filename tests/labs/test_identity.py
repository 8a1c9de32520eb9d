"""Samples of the wrong host and a BMC that is another machine's: refused, counted, shown, and no power call."""

from __future__ import annotations

from tests.labs.conftest import Fleet
from tests.labs.live import until


def test_an_exporter_that_claims_to_be_another_host_is_refused_counted_and_shown(fleet: Fleet) -> None:
    live = fleet.live
    node = fleet.fresh()
    live.inject("exporter_wrong_host", node)
    rows = "select reason, count, text from telemetry_rejection where subject like %s"
    assert until(lambda: bool(live.rows(rows, f"{node}/%")), 40, 0.5) is not None
    words = fleet.web.words(f"/nodes/{node}/")
    assert "refused" in words.lower() and "gpu-r" in words.split("efused", 1)[1][:300], words
    assert live.workflows(node) == []
    live.inject("exporter_wrong_host", node, clear=True)


def test_a_bmc_with_another_serial_gets_no_power_call(fleet: Fleet) -> None:
    live = fleet.live
    node = fleet.fresh()
    live.inject("bmc_wrong_serial", node)
    live.inject("xid79", node, 3)
    state = "select state from lifecycle_nodelifecycle l join inventory_node n on n.id = l.node_id where n.name = %s"
    assert until(lambda: live.rows(state, node)[0]["state"] == "awaiting_repair", 60, 0.3) is not None, live.why(node)
    assert sum(live.stats()["bmc"].get(node, {}).values()) == 0
    assert live.boots(node) == 0
    bmc = live.rows(
        "select condition, condition_text from inventory_bmc b join inventory_node n on n.id = b.node_id"
        " where n.name = %s",
        node,
    )[0]
    assert bmc["condition"] == "identity_mismatch"
    words = fleet.web.words(f"/nodes/{node}/")
    assert bmc["condition_text"][:60] in words
    assert live.why(node)["blocked"]["reason"] == "ticket"
    assert fleet.web.words("/tickets/").count(node) >= 1
