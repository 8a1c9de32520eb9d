"""People have the last word: they take nodes back, stop everything, end workflows, repair parts."""

from __future__ import annotations

import time

from tests.labs.conftest import Fleet
from tests.labs.live import until


def _kept_by_a_budget(fleet: Fleet) -> str:
    """A sick node whose drain waits for a budget that never yields."""
    live, node = fleet.live, fleet.fresh()
    while not live.work_on(node):
        node = fleet.fresh()
    live.inject("pdb_block", node)
    live.inject("xid79", node, 1)
    assert until(lambda: bool(live.workflows(node)) and live.workflows(node)[-1]["blocked_code"] == "pdb", 30, 0.3)
    return node


def _state(fleet: Fleet, node: str) -> str:
    rows = fleet.live.rows(
        "select l.state from lifecycle_nodelifecycle l join inventory_node n on n.id = l.node_id where n.name = %s",
        node,
    )
    return str(rows[0]["state"])


def test_an_uncordon_by_a_person_ends_the_workflow_and_is_respected(fleet: Fleet) -> None:
    live, node = fleet.live, _kept_by_a_budget(fleet)
    live.cordon_as_a_person(node, False)
    assert until(lambda: live.workflows(node)[-1]["state"] == "cancelled", 20, 0.2) is not None, live.why(node)
    assert until(lambda: not live.hold_of(node), 5) is not None
    time.sleep(15)  # longer than the sweep that plans for open incidents
    assert not live.cordoned(node) and not live.hold_of(node)
    assert len(live.workflows(node)) == 1 and _state(fleet, node) == "released"
    assert live.boots(node) == 0


def test_an_aborted_workflow_gives_the_node_back(fleet: Fleet) -> None:
    live, node = fleet.live, _kept_by_a_budget(fleet)
    flow = live.workflows(node)[-1]["id"]
    fleet.web.post(f"/workflows/{flow}/abort/", reason="The owner takes it from here")
    assert until(lambda: live.workflows(node)[-1]["state"] == "cancelled", 20, 0.2) is not None, live.why(node)
    assert not live.cordoned(node) and not live.hold_of(node)
    assert "The owner takes it from here" in fleet.web.words("/audit/")


def test_stopping_everything_starts_no_new_disruption_and_starting_again_goes_on(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    boot = live.boot_id(node)
    fleet.web.post("/switch/", stopped="1", reason="Power works in hall 2")
    live.inject("xid79", node, 1)
    assert until(lambda: bool(live.workflows(node)) and live.workflows(node)[-1]["blocked_code"] == "stopped", 20, 0.3)
    told = live.why(node)["blocked"]
    assert "Power works in hall 2" in told["text"] and told["until"]
    assert live.boots(node) == 0
    fleet.web.post("/switch/", stopped="0", reason="Done")
    assert until(lambda: live.healed(node, boot), 120, 0.5) is not None, live.why(node)


def test_a_closed_ticket_sends_the_node_to_validation(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    live.inject("stubborn", node)
    live.inject("xid79", node, 1)
    assert until(lambda: _state(fleet, node) == "awaiting_repair", 180, 0.5) is not None, live.why(node)
    boots, ticket = live.boots(node), live.rows("select t.id from tickets_ticket t where state = 'open'")[-1]["id"]
    assert boots == 2
    live.inject("stubborn", node, clear=True)
    fleet.web.post(f"/tickets/{ticket}/close/", resolution="GPU 1 replaced")
    assert until(lambda: _state(fleet, node) == "in_service", 90, 0.3) is not None, live.why(node)
    assert not live.cordoned(node) and live.boots(node) == boots


def test_a_lowered_mode_leaves_no_hold_unseen(fleet: Fleet) -> None:
    live, node = fleet.live, _kept_by_a_budget(fleet)
    assert live.manage("cluster", "mode", "demo", "observe").returncode == 0
    listed = live.manage("holds", "list").stdout
    assert f"demo {node} {live.hold_of(node)}" in listed
    released = live.manage("holds", "release", node, "--reason", "Observing from now on")
    assert released.returncode == 0, released.stderr
    assert not live.cordoned(node) and not live.hold_of(node)
    assert node not in live.manage("holds", "list").stdout
