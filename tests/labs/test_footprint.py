"""What a demo of 256 nodes costs a machine while nothing happens: memory and processor time of every process."""

from __future__ import annotations

import os
import time

import pytest

from tests.labs.conftest import Fleet

SECONDS = float(os.environ.get("LAB_FOOTPRINT_SECONDS", "120"))
MOST_MIB = 1536.0


@pytest.fixture(scope="module")
def settings_of_the_demo() -> dict[str, str | int | float]:
    return {"nodes": 256, "speed": 1.0, "scenario": os.environ.get("LAB_FOOTPRINT_SCENARIO", "calm")}


def test_memory_and_processor_time_at_rest(fleet: Fleet) -> None:
    time.sleep(min(30.0, SECONDS / 3))  # the first scrapes and imports are over
    before, began = fleet.live.ticks(), time.monotonic()
    time.sleep(SECONDS)
    after, took = fleet.live.ticks(), time.monotonic() - began
    share = {name: round(100 * (after[name] - before.get(name, 0.0)) / took, 1) for name in after}
    memory = {name: round(used) for name, used in fleet.live.memory().items()}
    print(f"\nafter {took:.0f} s: MiB {memory}, sum {sum(memory.values())}")
    print(f"percent of one core {share}, sum {sum(share.values()):.1f}")
    assert sum(memory.values()) <= MOST_MIB
    assert sum(share.values()) <= 100.0, "more than one of two cores while nothing happens"
