"""The simulated fleet's BMCs answer the same driver as any other, and count what reached them."""

from __future__ import annotations

import csv
import json
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fleet.adapters import redfish
from fleet.ports.errors import IdentityMismatch, PermanentError
from fleet.ports.power import BmcTarget, PowerState, PowerVerb
from tests.adapters.kubernetes.world import simulated


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with simulated(tmp_path_factory.mktemp("fleet")) as files:
        yield files


@pytest.fixture
def machine(folder: Path) -> BmcTarget:
    with (folder / "inventory.csv").open(encoding="utf-8", newline="") as file:
        row = next(csv.DictReader(file))
    pins = (row["bmc_uuid"], row["serial"])
    return BmcTarget(1, row["node"], row["bmc_address"], "admin", "simulated", True, *pins)


def resets(folder: Path, node: str) -> dict[str, int]:
    address = (folder / "url").read_text(encoding="utf-8").strip().rstrip("/")
    with urllib.request.urlopen(f"{address}/_sim/stats", timeout=5) as answer:
        counted: dict[str, int] = json.load(answer)["bmc"].get(node, {})
    return counted


def test_a_machine_of_the_fleet_is_read_and_reset_once(folder: Path, machine: BmcTarget) -> None:
    power = redfish.power()
    seen = power.observe(machine, 6)
    assert (seen.state, seen.serial) == (PowerState.ON, machine.pinned_serial)
    assert seen.last_reset and "ForceRestart" in seen.resets
    power.reset(machine, PowerVerb.FORCE_RESTART, 6)
    assert resets(folder, machine.node) == {"ForceRestart": 1}


def test_a_wrong_pin_or_password_resets_nothing(folder: Path, machine: BmcTarget) -> None:
    before = resets(folder, machine.node)
    power = redfish.power()
    with pytest.raises(IdentityMismatch):
        power.reset(replace(machine, pinned_serial="SN-OTHER"), PowerVerb.FORCE_RESTART, 6)
    with pytest.raises(PermanentError) as caught:
        power.reset(replace(machine, password="wrong"), PowerVerb.FORCE_RESTART, 6)
    assert caught.value.code == "bmc_credential"
    assert resets(folder, machine.node) == before
