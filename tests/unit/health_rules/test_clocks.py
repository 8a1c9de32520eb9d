"""Clocks lowered by hardware: a ticket while all share it, a fault where one GPU loses against its peers."""

from __future__ import annotations

import pytest

from fleet.telemetry import names
from tests.unit.health_rules.bench import Bench

BRAKE, THERMAL, CAP = 0x80, 0x40, 0x04


def gpus(clocks: list[float], held: dict[int, int], util: float = 95.0, models: str = "AAAAAAAA") -> dict[str, float]:
    series = {}
    for gpu, clock in enumerate(clocks):
        labels = f'gpu="{gpu}",UUID="GPU-{gpu}",modelName="{models[gpu]}"'
        series[f"{names.SM_CLOCK}{{{labels}}}"] = clock
        series[f"{names.GPU_UTIL}{{{labels}}}"] = util
        series[f"{names.CLOCK_REASONS}{{{labels}}}"] = float(held.get(gpu, 0))
    return series


def opened(series: dict[str, float], scrapes: int = 20) -> set[tuple[str, str]]:
    bench = Bench()
    for _ in range(scrapes):
        bench.scrape(series)
    return {(device, cause) for _, device, cause in bench.engine.open_findings() if cause == "clock-slowed"}


ONE_SLOW = [1980.0] * 7 + [1200.0]


@pytest.mark.parametrize("reason", [0x08, THERMAL, BRAKE, BRAKE | CAP])
def test_a_gpu_held_below_its_peers_is_unhealthy(reason: int) -> None:
    assert opened(gpus(ONE_SLOW, {7: reason})) == {("GPU-7", "clock-slowed")}


@pytest.mark.parametrize(
    "series",
    [
        gpus(ONE_SLOW, {7: CAP}),
        gpus(ONE_SLOW, {}),
        gpus([1980.0] * 7 + [1900.0], {7: BRAKE}),
        gpus([1200.0] * 8, dict.fromkeys(range(8), BRAKE)),
        gpus(ONE_SLOW, {7: BRAKE}, util=3.0),
        gpus(ONE_SLOW[-3:], {2: BRAKE}),
        gpus(ONE_SLOW, {7: BRAKE}, models="AAAAAAAB"),
    ],
    ids=["a cap", "no reason", "hardly slower", "all alike", "idle", "too few peers", "another model"],
)
def test_what_is_no_loss_against_peers_is_none(series: dict[str, float]) -> None:
    assert opened(series) == set()


def test_it_takes_two_minutes_and_ends_with_the_reason() -> None:
    bench = Bench()
    for _ in range(8):
        bench.scrape(gpus(ONE_SLOW, {7: BRAKE}))
        assert "clock-slowed" not in bench.open()
    for _ in range(2):
        bench.scrape(gpus(ONE_SLOW, {7: BRAKE}))
    assert "clock-slowed" in bench.open()
    finding = next(f for key, f in bench.engine.open_findings().items() if key[2] == "clock-slowed")
    assert finding.edge.text == "GPU 7 is held at 1200 MHz by its hardware, below its peers"
    assert (finding.edge.severity, finding.edge.action_class) == ("unhealthy", "inspect")
    for _ in range(4):
        bench.scrape(gpus([1980.0] * 8, {}))
    assert "clock-slowed" not in bench.open()


def test_persistence_alone_is_a_ticket_and_no_fault() -> None:
    bench = Bench()
    for _ in range(40):
        bench.scrape(gpus([1200.0] * 8, dict.fromkeys(range(8), BRAKE)))
    assert bench.open() == {"clock-reasons"}
    assert {f.edge.action_class for f in bench.engine.open_findings().values()} == {"ticket"}
