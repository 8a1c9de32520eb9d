"""Whatever can be wrong with one node ends in something stated: healed, blocked with a reason, a ticket, or a verdict.

All faults strike within seconds, each on a node of its own; every test then asks about one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from tests.labs.conftest import Fleet
from tests.labs.live import until

BRANDED = ("bmc_lies", "bmc_500", "bmc_silent", "pod_stuck", "pdb_block", "stubborn", "clock_skew")
ALONE = (
    "not_ready", "host_dead", "nfs_hang", "ib_down", "ib_flap", "thermal", "ecc_dbe", "gpu_lost", "xid48", "xid31",
    "psu", "exporter_garbage",
)  # fmt: skip
HEALED = ("pod_stuck", "clock_skew", "not_ready", "host_dead", "nfs_hang", "gpu_lost")
RESET = ("ecc_dbe", "xid48")
LONG = 240.0


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {
        "nodes": 256,
        "speed": 4.0,
        "MUSTER_REBOOT_OBSERVE_SECONDS": "10",
        "MUSTER_DRAIN_MARGIN_SECONDS": "5",
        "MUSTER_BMC_PATIENCE_SECONDS": "60",
    }


@dataclass(slots=True)
class Sick:
    """A node, its fault, and everything that was said of it."""

    fleet: Fleet
    node: str
    boot: str

    def row(self) -> dict[str, Any]:
        return self.fleet.live.rows(
            "select v.verdict, v.reason, l.state, b.condition, b.condition_text, n.id"
            " from inventory_node n join health_nodeverdict v on v.node_id = n.id"
            " join lifecycle_nodelifecycle l on l.node_id = n.id join inventory_bmc b on b.node_id = n.id"
            " where n.name = %s",
            self.node,
        )[0]

    def tickets(self) -> list[str]:
        rows = self.fleet.live.rows("select reason from tickets_ticket where node_id = %s", self.row()["id"])
        return [row["reason"] for row in rows]

    def blocked(self) -> tuple[str, str]:
        flows = self.fleet.live.workflows(self.node)
        return (flows[-1]["blocked_code"], flows[-1]["blocked_text"]) if flows else ("", "")

    def page(self) -> str:
        return self.fleet.web.words(f"/nodes/{self.node}/")


@pytest.fixture(scope="module")
def sick(fleet: Fleet) -> dict[str, Sick]:
    """One node for each fault. The branded ones lose a GPU as well, so that something has to be done to them."""
    found = {}
    for fault in (*BRANDED, *ALONE):
        node = fleet.fresh()
        if fault in ("pdb_block", "pod_stuck"):
            while not fleet.live.work_on(node):
                node = fleet.fresh()
        found[fault] = Sick(fleet, node, fleet.live.boot_id(node))
        fleet.live.inject(fault, node)
    assert until(lambda: "Clock" in found["clock_skew"].page(), 60, 1) is not None
    for fault in BRANDED:
        fleet.live.inject("xid79", found[fault].node, 2)
    return found


def _comes(test: Any, seconds: float = LONG) -> bool:
    return until(test, seconds, 0.5) is not None


@pytest.mark.parametrize("fault", RESET)
def test_it_heals_by_one_reset_of_its_gpu(sick: dict[str, Sick], fault: str) -> None:
    one = sick[fault]
    live = one.fleet.live
    assert _comes(lambda: [w for w in live.workflows(one.node) if w["state"] == "succeeded"]), live.why(one.node)
    assert live.stats()["gpu_resets"][one.node] == 1 and live.boots(one.node) == 0
    assert not live.cordoned(one.node)


@pytest.mark.parametrize("fault", HEALED)
def test_it_heals_by_one_boot(sick: dict[str, Sick], fault: str) -> None:
    one = sick[fault]
    live = one.fleet.live
    assert _comes(lambda: live.healed(one.node, one.boot)), live.why(one.node)
    assert live.boots(one.node) == 1
    assert live.workflows(one.node)[-1]["state"] == "succeeded"


def test_a_node_that_came_back_is_not_blamed_for_the_boot_before(sick: dict[str, Sick]) -> None:
    one = sick["nfs_hang"]
    assert _comes(lambda: one.row()["verdict"] == "healthy", 60), one.row()


def test_a_bmc_that_says_yes_and_does_nothing_ends_with_people(sick: dict[str, Sick]) -> None:
    one = sick["bmc_lies"]
    assert _comes(lambda: bool(one.tickets())), one.fleet.live.why(one.node)
    assert "never rebooted" in one.tickets()[0]
    assert one.fleet.live.boots(one.node) == 0
    resets = one.fleet.live.rows(
        "select i.op_id, i.outcome from lifecycle_intent i join lifecycle_workflow w on w.id = i.workflow_id"
        " where w.node_id = %s and i.verb = 'reset'",
        one.row()["id"],
    )
    counted = sum(one.fleet.live.stats()["bmc"][one.node].values())
    assert counted == len(resets) <= 3, "each op_id is sent once"


@pytest.mark.parametrize(("fault", "code"), [("bmc_500", "bmc_error"), ("bmc_silent", "bmc_timeout")])
def test_a_bmc_that_fails_is_stated_tried_again_and_then_given_to_people(
    sick: dict[str, Sick], fault: str, code: str
) -> None:
    one = sick[fault]
    assert _comes(lambda: one.row()["condition"] == code)
    assert one.row()["condition_text"][:50] in one.page()
    assert _comes(lambda: bool(one.tickets())), one.fleet.live.why(one.node)
    assert one.blocked()[0] == "ticket"
    assert one.fleet.live.boots(one.node) == 0


def test_a_budget_that_never_yields_is_named_and_nothing_is_rebooted(sick: dict[str, Sick]) -> None:
    one = sick["pdb_block"]
    assert _comes(lambda: one.blocked()[0] == "pdb")
    assert f"never-yields-{one.node}" in one.blocked()[1]
    assert f"never-yields-{one.node}" in one.page()
    told = one.fleet.live.why(one.node)["blocked"]
    assert told["until"] and told["since"]
    assert one.fleet.live.boots(one.node) == 0
    one.fleet.live.inject("pdb_block", one.node, clear=True)
    assert _comes(lambda: one.fleet.live.healed(one.node, one.boot)), one.fleet.live.why(one.node)


def test_a_pod_that_never_ends_is_named_and_left_behind(sick: dict[str, Sick]) -> None:
    one = sick["pod_stuck"]
    said = one.fleet.live.rows(
        "select s.text from lifecycle_step s join lifecycle_workflow w on w.id = s.workflow_id"
        " where w.node_id = %s and s.verb = 'drain'",
        one.row()["id"],
    )
    assert "left behind" in said[0]["text"] and "does not end" in said[0]["text"]


def test_a_fault_that_two_boots_do_not_mend_is_given_to_people(sick: dict[str, Sick]) -> None:
    one = sick["stubborn"]
    assert _comes(lambda: bool(one.tickets())), one.fleet.live.why(one.node)
    assert "attempts have run out" in one.tickets()[0]
    assert one.fleet.live.boots(one.node) == 2


@pytest.mark.parametrize("fault", ["ib_down", "ib_flap", "thermal"])
def test_what_only_people_mend_is_a_ticket_without_a_boot(sick: dict[str, Sick], fault: str) -> None:
    one = sick[fault]
    assert _comes(lambda: bool(one.tickets())), one.fleet.live.why(one.node)
    assert one.fleet.live.boots(one.node) == 0
    assert one.row()["verdict"] in ("degraded", "unhealthy")


@pytest.mark.parametrize("fault", ["xid31", "psu"])
def test_what_needs_no_action_of_ours_is_a_verdict_with_a_reason(sick: dict[str, Sick], fault: str) -> None:
    one = sick[fault]
    assert _comes(lambda: one.row()["verdict"] == "degraded")
    assert one.row()["reason"][:40] in one.page()
    assert one.fleet.live.boots(one.node) == 0 and not one.fleet.live.cordoned(one.node)


def test_text_cut_in_the_middle_and_absurd_values_are_counted_and_shown(sick: dict[str, Sick]) -> None:
    one = sick["exporter_garbage"]
    assert _comes(lambda: "cut_line" in one.page())
    assert "absurd_value" in one.page()
    assert one.fleet.live.workflows(one.node) == []


def test_no_bmc_saw_two_calls_at_once_and_no_pod_was_deleted_past_its_budget(sick: dict[str, Sick]) -> None:
    stats = sick["psu"].fleet.live.stats()
    assert stats["bmc_concurrent_max"] <= 1
    assert "delete pods" not in stats["writes"]
