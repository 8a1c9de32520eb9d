"""The gentlest remedy and the harshest, from the fault to service, in a whole demo."""

from __future__ import annotations

import pytest

from fleet.simulator.metal3 import NAMESPACE
from tests.labs.conftest import Fleet
from tests.labs.live import until

LONG = 240.0


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {"nodes": 64, "speed": 8.0, "MUSTER_DRAIN_MARGIN_SECONDS": "5", "MUSTER_SOAK_SECONDS": "3"}


def test_an_uncorrectable_error_is_mended_by_a_reset_of_that_gpu_alone(fleet: Fleet) -> None:
    live, node = fleet.live, fleet.fresh()
    boots = live.boots(node)
    live.inject("ecc_dbe", node, 3)
    assert until(lambda: [w for w in live.workflows(node) if w["state"] == "succeeded"], LONG), live.why(node)
    assert live.stats()["gpu_resets"][node] == 1 and live.boots(node) == boots
    assert not live.cordoned(node)


def test_a_node_is_installed_anew_when_people_agree(fleet: Fleet) -> None:
    """By Metal3, through the cluster's own API server, and with the approval of two people."""
    live, node = fleet.live, fleet.fresh()
    boot = live.boot_id(node)
    added = live.manage("cluster", "add", "demo", "--provisioner", "metal3", "--provision-namespace", NAMESPACE)
    assert added.returncode == 0, added.stderr
    asked = live.manage("shell", "-c", ASK.format(node=node))
    assert asked.returncode == 0, asked.stderr
    assert until(lambda: [w for w in live.workflows(node) if w["state"] == "succeeded"], LONG), live.why(node)
    assert live.stats()["provisions"] == {node: 1}
    assert live.boot_id(node) != boot and not live.cordoned(node)


ASK = """
from fleet.inventory.models import Node
from fleet.lifecycle import manual, services
from fleet.ports.clock import SYSTEM_CLOCK
node = Node.objects.get(name="{node}")
made, refused = manual.request([node.pk], "reprovision", "ada", "A broken root disk.", SYSTEM_CLOCK.now())
assert made and not refused, refused
for person in ("bob", "eve"):
    services.approve(made[0].pk, person, SYSTEM_CLOCK.now(), "It is broken.")
"""
