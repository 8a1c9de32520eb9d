"""The ways in for the quality replay that bring kernel lines: what log shippers post, in their own forms.

Decides how a line is wrapped, as each shipper wraps it, and gives it to the real readers. The series of the fleet go
straight into the arrays. Refuses a network, and a form of our own.
"""

from __future__ import annotations

from typing import ClassVar

import orjson

from fleet.health.rules.types import Edge
from fleet.ops.bench._faulty import Injected, Told
from fleet.ops.bench._ways import Way
from fleet.ops.bench._writes import block, number
from fleet.telemetry import kernellog, loki
from fleet.telemetry.kernellog import Batch


class Shipped(Way):
    """As Fluent Bit's JSON."""

    name = "fluent_bit"
    told: ClassVar[Told] = "line"

    def hear(self, one: Injected) -> list[Edge]:
        fleet = self.fleet
        batch = self.batch(one.node, one.line)
        edges: list[Edge] = []
        for heard in batch.lines:
            edges += fleet.engine.on_kernel_line(heard, fleet.facts[heard.node_claim], fleet.now)
        return edges

    def batch(self, node: str, line: str) -> Batch:
        record = {"date": self.fleet.now.timestamp(), "host": node, "ident": "kernel", "log": line}
        return kernellog.read_batch(orjson.dumps([record]))


class Vector(Shipped):
    name = "vector"

    def batch(self, node: str, line: str) -> Batch:
        record = {"timestamp": self.fleet.now.isoformat(), "host": node, "message": line, "source_type": "journald"}
        return kernellog.read_batch(orjson.dumps(record) + b"\n")


class Journal(Shipped):
    name = "journal"

    def batch(self, node: str, line: str) -> Batch:
        at = str(int(self.fleet.now.timestamp() * 1e6))
        return kernellog.read_batch(orjson.dumps({"__REALTIME_TIMESTAMP": at, "_HOSTNAME": node, "MESSAGE": line}))


class LokiJson(Shipped):
    """As Loki's push form in JSON."""

    name = "loki_json"

    def batch(self, node: str, line: str) -> Batch:
        value = [str(int(self.fleet.now.timestamp() * 1e9)), line]
        return loki.read_json(orjson.dumps({"streams": [{"stream": {"host": node}, "values": [value]}]}))


class LokiPacked(Shipped):
    """As Loki's push form in protobuf."""

    name = "loki_protobuf"

    def batch(self, node: str, line: str) -> Batch:
        stamp = b"\x08" + number(int(self.fleet.now.timestamp()))
        entry = block(1, stamp) + block(2, line.encode())
        return loki.read_protobuf(block(1, block(1, f'{{host="{node}"}}'.encode()) + block(2, entry)))
