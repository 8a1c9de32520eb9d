"""Twenty GPUs fall off the bus one after another; each node is held at once and heals by one boot."""

from __future__ import annotations

import time

import pytest

from tests.labs.conftest import Fleet
from tests.labs.live import until

FAULTS = 20
PHASES = ("Detect", "Hold", "Drain", "Reboot", "Validate", "Soak", "Return to service", "Total")


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {"nodes": 256, "speed": 2.0}


@pytest.fixture(scope="module")
def held(fleet: Fleet) -> dict[str, tuple[float | None, str]]:
    """Node -> seconds from the fault to the cordon, and the boot id before."""
    found = {}
    for number in range(FAULTS):
        node = fleet.fresh("h100-serve" if number % 10 == 9 else "h100-train")
        boot = fleet.live.boot_id(node)
        fleet.live.inject("xid79", node, number % 8)
        found[node] = until(lambda node=node: fleet.live.cordoned(node), 30, 0.02), boot
        time.sleep(1)
    return found


def test_the_cordon_comes_within_three_seconds(held: dict[str, tuple[float | None, str]]) -> None:
    took = sorted(999.0 if seconds is None else seconds for seconds, _ in held.values())
    print("fault to cordon:", [round(seconds, 2) for seconds in took])
    assert took[int(0.95 * FAULTS) - 1] <= 3.0
    assert took[0] > 0.0


def test_each_heals_by_exactly_one_boot(fleet: Fleet, held: dict[str, tuple[float | None, str]]) -> None:
    for node, (_, boot) in held.items():
        assert until(lambda node=node, boot=boot: fleet.live.healed(node, boot), 300, 0.5) is not None, node
    stats = fleet.live.stats()
    assert {node: stats["boots"].get(node) for node in held} == dict.fromkeys(held, 1)
    assert stats["bmc_concurrent_max"] <= 1
    assert {row["state"] for node in held for row in fleet.live.workflows(node)} == {"succeeded"}


def test_the_node_page_tells_how_long_each_phase_took(fleet: Fleet, held: dict[str, tuple[float | None, str]]) -> None:
    for node in list(held)[:3]:
        words = fleet.web.words(f"/nodes/{node}/")
        told = words.partition("How long it took")[2]
        missing = [phase for phase in PHASES if phase not in told]
        assert not missing, told[:500]
