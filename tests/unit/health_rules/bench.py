"""One exporter on a table for rules that are data alone: a clock, one node, any series."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import ClusterView, Edge, NodeFacts
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
GPU = 'gpu="0",UUID="GPU-0",pci_bus_id="00000000:1B:00.0"'
LABELS = {
    "gpu": GPU,
    "port": 'device="mlx5_0",port="1"',
    "nic": 'device="eth0"',
    "mount": 'device="/dev/md0",fstype="ext4",mountpoint="/scratch"',
    "host": "",
    "disk": 'device="nvme0n1"',
    "psu": 'power_supply="PSU 1",type="Power Supply"',
    "fan": 'fan="Fan 3"',
    "dimm": 'controller="mc0"',
    "switch": 'nvswitch="nvswitch0"',
}


class Bench:
    def __init__(self, tuning: Any = None) -> None:
        self.tuning = tuning
        self.now, self.mono = START, 10_000.0
        self.facts = NodeFacts("n1", True, START - timedelta(days=1), boot_id="b1", boot_at=START - timedelta(days=1))
        self.start()

    def start(self) -> None:
        self.frame = Frame()
        self.intake = Intake(self.frame)
        self.engine = RuleEngine(self.frame, self.tuning) if self.tuning else RuleEngine(self.frame)

    def scrape(self, series: Mapping[str, float], after: float = 15.0, node: str = "n1") -> list[Edge]:
        """`series` maps `metric{labels}` to its value."""
        self.now += timedelta(seconds=after)
        self.mono += after
        body = "".join(f"{name} {value!r}\n" for name, value in series.items()) + "node_load1 1\n"
        target = self.frame.target(node, "exporter", 15.0)
        self.intake.scraped(target, body.encode(), self.mono, self.now.timestamp())
        return self.cycle()

    def cycle(self) -> list[Edge]:
        return self.engine.cycle(ClusterView(self.now, self.mono, self.frame, {"n1": self.facts}))

    def open(self) -> set[str]:
        return {cause for _, _, cause in self.engine.open_findings()}
