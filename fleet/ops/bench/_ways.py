"""The ways in for the quality replay that bring series: arrays, scraped text, remote write of both versions.

Decides how one step of a fleet reaches the frame, by the real readers. Refuses a network.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import ClassVar

from fleet.health.rules.types import Edge
from fleet.ops.bench import _writes as writes
from fleet.ops.bench._faulty import Fault, Injected, Told
from fleet.ops.bench._healthy import DCGM, JOBS, NODE, Bools, Column, Healthy
from fleet.telemetry import names, remotewrite, remotewrite2
from fleet.telemetry.intake import Intake
from fleet.telemetry.pushintake import PushIntake
from fleet.telemetry.remotewrite import PushedSamples


class Way:
    """Straight into the frame's arrays. `told` is what a way brings, and so which faults it can carry; `never` are
    metrics that do not travel by it."""

    name: ClassVar[str] = "arrays"
    told: ClassVar[Told] = "series"
    never: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def carries(cls, fault: Fault) -> bool:
        return fault.told == cls.told and not any(effect.metric in cls.never for effect in fault.effects)

    def __init__(self, fleet: Healthy) -> None:
        self.fleet = fleet

    def step(self, placed: Sequence[Injected]) -> list[Edge]:
        fleet = self.fleet
        fleet.tick()
        begun = [one for one in placed if one.act()]
        self.deliver(fleet.answers())
        edges = [edge for one in begun for edge in self.hear(one)]
        return edges + fleet.engine.cycle(fleet.view())

    def deliver(self, answered: Bools) -> None:
        self.fleet.write(answered)

    def hear(self, one: Injected) -> list[Edge]:
        """What is said once, when a fault begins."""
        return []

    def close(self) -> None:
        """Nothing is asked of it any more."""


class Scraped(Way):
    """As exposition text."""

    name = "scrape"

    def __init__(self, fleet: Healthy) -> None:
        super().__init__(fleet)
        self.intake = Intake(fleet.frame)
        self.heads = [_series(column.metric, column.labels) for column in fleet.columns]

    def deliver(self, answered: Bools) -> None:
        fleet, wall = self.fleet, self.fleet.now.timestamp()
        for number, node in enumerate(fleet.names):
            for job, part in ((DCGM, range(fleet.dcgm)), (NODE, range(fleet.dcgm, len(self.heads)))):
                target = fleet.frame.targets[int(fleet.targets[number, job])]
                if not answered[number, job]:
                    self.intake.failed(target, f"{JOBS[job]} on {node} did not answer.")
                    continue
                values = fleet.values[number].tolist()
                text = "".join(f"{self.heads[p]} {values[p]!r}\n" for p in part if values[p] == values[p])
                if job == NODE:
                    text += f"{names.NODE_TIME} {wall + float(fleet.skew[number])!r}\n"
                self.intake.scraped(target, text.encode(), fleet.mono, wall)


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
        self.columns = [*fleet.columns, Column(NODE, names.NODE_TIME, 0, {})]
        self.heads = [[self.head(_labels(node, column)) for column in self.columns] for node in fleet.names]

    def deliver(self, answered: Bools) -> None:
        pushed = self.read(self.samples(answered))
        self.intake.take(pushed, self.fleet.mono, self.fleet.now.timestamp())

    def samples(self, answered: Bools) -> Iterator[tuple[bytes, bytes]]:
        """(labels, sample) of everything that was scraped this time."""
        fleet, wall = self.fleet, self.fleet.now.timestamp()
        tail = b"\x10" + writes.number(int(wall * 1000))
        for number, heads in enumerate(self.heads):
            values = [*fleet.values[number].tolist(), wall + float(fleet.skew[number])]
            for place, column in enumerate(self.columns):
                value = values[place]
                if value == value and answered[number, column.job]:
                    yield heads[place], writes.block(2, b"\x09" + struct.pack("<d", value) + tail)

    def head(self, labels: list[tuple[str, str]]) -> bytes:
        """A series' labels as they travel."""
        pairs = (writes.block(1, key.encode()) + writes.block(2, value.encode()) for key, value in labels)
        return b"".join(writes.block(1, pair) for pair in pairs)

    def read(self, samples: Iterator[tuple[bytes, bytes]]) -> PushedSamples:
        body = [head + sample for head, sample in samples]
        mono = self.fleet.mono
        cache = self.intake.cache("", mono)
        return remotewrite.read(body, cache, lambda labels: self.intake.place(labels, "", mono))


class WrittenAnew(Written):
    """As remote write 2.0, whose labels are numbers into a table."""

    name = "remote_write_2"

    def __init__(self, fleet: Healthy) -> None:
        self.symbols: dict[str, int] = {"": 0}
        super().__init__(fleet)

    def head(self, labels: list[tuple[str, str]]) -> bytes:
        texts = (text for pair in labels for text in pair)
        numbers = (self.symbols.setdefault(text, len(self.symbols)) for text in texts)
        return writes.block(1, b"".join(writes.number(place) for place in numbers))

    def read(self, samples: Iterator[tuple[bytes, bytes]]) -> PushedSamples:
        table = b"".join(writes.block(4, text.encode()) for text in self.symbols)
        request = remotewrite2.Request(table + b"".join(writes.block(5, head + sample) for head, sample in samples))
        mono = self.fleet.mono
        cache = self.intake.cache("", mono)
        return request.read(0, len(request), cache, lambda labels: self.intake.place(labels, "", mono))


def _labels(node: str, column: Column) -> list[tuple[str, str]]:
    whole = {"__name__": column.metric, "job": JOBS[column.job], "instance": f"{node}:9{column.job}00", "node": node}
    return sorted((whole | column.labels).items())
