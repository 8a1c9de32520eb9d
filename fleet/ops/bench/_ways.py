"""The ways in for the quality replay: arrays, scraped text, remote write; kernel lines in three shippers' forms.

Decides how one step of a fleet reaches the frame, by the real readers. Refuses a network.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar

import orjson

from fleet.health.rules.types import Edge
from fleet.ops.bench import _writes as writes
from fleet.ops.bench._faulty import Injected
from fleet.ops.bench._healthy import DCGM, JOBS, NODE, Bools, Healthy
from fleet.telemetry import kernellog, remotewrite
from fleet.telemetry.intake import Intake
from fleet.telemetry.pushintake import PushIntake


class Way:
    """Straight into the frame's arrays."""

    name: ClassVar[str] = "arrays"

    def __init__(self, fleet: Healthy) -> None:
        self.fleet = fleet
        self.lines = 0

    def step(self, placed: Sequence[Injected]) -> list[Edge]:
        fleet = self.fleet
        fleet.now += timedelta(seconds=fleet.interval)
        fleet.mono += fleet.interval
        fleet.ticks += 1
        fleet.live()
        edges: list[Edge] = []
        said = [(one.node, line) for one in placed if (line := one.act())]
        answered = fleet.answers()
        self.deliver(answered)
        for one in placed:
            one.after()
        for node, line in said:
            edges += self._hear(node, line)
        return edges + fleet.engine.cycle(fleet.view())

    def deliver(self, answered: Bools) -> None:
        self.fleet.write(answered)

    def _hear(self, node: str, line: str) -> list[Edge]:
        """Through the reader of what Fluent Bit, Vector and a journal shipper post."""
        at, self.lines = self.fleet.now, self.lines + 1
        forms = (
            [{"date": at.timestamp(), "host": node, "ident": "kernel", "log": line}],
            {"timestamp": at.isoformat(), "host": node, "message": line},
            {"__REALTIME_TIMESTAMP": str(int(at.timestamp() * 1e6)), "_HOSTNAME": node, "MESSAGE": line},
        )
        batch = kernellog.read_batch(orjson.dumps(forms[self.lines % 3]))
        edges: list[Edge] = []
        for heard in batch.lines:
            edges += self.fleet.engine.on_kernel_line(heard, self.fleet.facts[heard.node_claim], at)
        return edges


class Scraped(Way):
    """As exposition text."""

    name = "scrape"

    def __init__(self, fleet: Healthy) -> None:
        super().__init__(fleet)
        self.intake = Intake(fleet.frame)
        self.heads = [_series(column.metric, column.labels) for column in fleet.columns]

    def deliver(self, answered: Bools) -> None:
        fleet = self.fleet
        for number, node in enumerate(fleet.names):
            for job, part in ((DCGM, range(fleet.dcgm)), (NODE, range(fleet.dcgm, len(self.heads)))):
                target = fleet.frame.targets[int(fleet.targets[number, job])]
                if not answered[number, job]:
                    self.intake.failed(target, f"{JOBS[job]} on {node} did not answer.")
                    continue
                values = fleet.values[number].tolist()
                text = "".join(f"{self.heads[p]} {values[p]!r}\n" for p in part if values[p] == values[p])
                self.intake.scraped(target, text.encode(), fleet.mono, fleet.now.timestamp())


def _series(metric: str, labels: dict[str, str]) -> str:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return f"{metric}{{{inside}}}" if labels else metric


class Written(Way):
    """As remote write 1.0; a sender that misses a scrape sends nothing for it."""

    name = "remote_write"

    def __init__(self, fleet: Healthy) -> None:
        super().__init__(fleet)
        fleet.forget_targets()
        self.intake = PushIntake(fleet.frame, lambda name: name if name in fleet.facts else None, fleet.interval)
        self.heads = [[_head(node, column.job, column.metric, column.labels) for column in fleet.columns]
                      for node in fleet.names]  # fmt: skip

    def deliver(self, answered: Bools) -> None:
        fleet, wall = self.fleet, self.fleet.now.timestamp()
        cache = self.intake.cache("", fleet.mono)
        tail = b"\x10" + writes.number(int(wall * 1000))
        body: list[bytes] = []
        for number, heads in enumerate(self.heads):
            values = fleet.values[number].tolist()
            for place, column in enumerate(fleet.columns):
                value = values[place]
                if value == value and answered[number, column.job]:
                    sample = b"\x09" + struct.pack("<d", value) + tail
                    body.append(heads[place] + b"\x12" + writes.number(len(sample)) + sample)
        pushed = remotewrite.read(body, cache, lambda labels: self.intake.place(labels, "", fleet.mono))
        self.intake.take(pushed, fleet.mono, wall)


def _head(node: str, job: int, metric: str, labels: dict[str, str]) -> bytes:
    whole = {"__name__": metric, "job": JOBS[job], "instance": f"{node}:9{job}00", "node": node} | labels
    pairs = [writes.block(1, k.encode()) + writes.block(2, v.encode()) for k, v in sorted(whole.items())]
    return b"".join(writes.block(1, pair) for pair in pairs)


WAYS: tuple[type[Way], ...] = (Way, Scraped, Written)
