"""Remote write requests to measure with, and the peer: the whole message decoded by the protobuf library.

Decides what a request looks like: thirteen labels and the name, some values zero, as Prometheus writes them. Refuses
shortcuts in the peer's favour or ours: it builds the label tuple of each series, which is what an id needs.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

STAMP = 1_796_000_000_000


def number(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def block(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def pairs(index: int, pod: str) -> list[tuple[str, str]]:
    gpu, node = index % 8, index // 320
    return [
        ("DCGM_FI_DRIVER_VERSION", "570.172.08"), ("Hostname", f"n{node:05d}"),
        ("UUID", f"GPU-n{node:05d}-{gpu:012d}"), ("__name__", f"DCGM_FI_DEV_BENCH_{index // 8 % 40}"),
        ("container", "main"), ("device", f"nvidia{gpu}"), ("gpu", str(gpu)), ("instance", f"10.0.0.{node}:9400"),
        ("job", "dcgm-exporter"), ("modelName", "NVIDIA H100 80GB HBM3"), ("namespace", "train"),
        ("pci_bus_id", f"00000000:{gpu + 27:02X}:00.0"), ("pod", pod), ("prometheus", "monitoring/k8s"),
    ]  # fmt: skip


def _sample(rng: random.Random, stamp: int) -> bytes:
    value = 0.0 if rng.random() < 0.3 else rng.uniform(1, 2000)
    return block(2, (b"\x09" + struct.pack("<d", value) if value else b"") + b"\x10" + number(stamp))


def first(count: int, seed: int, pod: str = "llm-7-worker-3") -> bytes:
    """A request of version 1.0, packed."""
    rng = random.Random(seed)
    parts = []
    for index in range(count):
        labels = [block(1, block(1, name.encode()) + block(2, value.encode())) for name, value in pairs(index, pod)]
        parts.append(block(1, b"".join(labels) + _sample(rng, STAMP + seed * 15_000)))
    return bytes(cramjam.snappy.compress_raw(b"".join(parts)))


def second(count: int, seed: int) -> bytes:
    """The same in version 2.0."""
    rng = random.Random(seed)
    symbols: dict[str, int] = {"": 0}
    parts = []
    for index in range(count):
        texts = [text for pair in pairs(index, "llm-7-worker-3") for text in pair]
        refs = b"".join(number(symbols.setdefault(text, len(symbols))) for text in texts)
        parts.append(block(5, block(1, refs) + _sample(rng, STAMP + seed * 15_000)))
    table = b"".join(block(4, text.encode()) for text in symbols)
    return bytes(cramjam.snappy.compress_raw(table + b"".join(parts)))


def peer() -> Callable[[bytes], int]:
    """Decode a request of version 1.0 whole and look each label set up."""
    proto = descriptor_pb2.FileDescriptorProto(name="bench/write.proto", package="bench", syntax="proto3")
    label = proto.message_type.add(name="Label")
    label.field.add(name="name", number=1, type=9, label=1)
    label.field.add(name="value", number=2, type=9, label=1)
    sample = proto.message_type.add(name="Sample")
    sample.field.add(name="value", number=1, type=1, label=1)
    sample.field.add(name="timestamp", number=2, type=3, label=1)
    series = proto.message_type.add(name="Series")
    series.field.add(name="labels", number=1, type=11, type_name=".bench.Label", label=3)
    series.field.add(name="samples", number=2, type=11, type_name=".bench.Sample", label=3)
    request = proto.message_type.add(name="Request")
    request.field.add(name="timeseries", number=1, type=11, type_name=".bench.Series", label=3)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(proto)
    kind: Any = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Request"))
    ids: dict[tuple[tuple[str, str], ...], int] = {}

    def decode(body: bytes) -> int:
        whole = kind.FromString(bytes(cramjam.snappy.decompress_raw(body)))
        done = 0
        for one in whole.timeseries:
            key = tuple((label.name, label.value) for label in one.labels)
            row = ids.setdefault(key, len(ids))
            for sample in one.samples:
                done += (row, sample.value, sample.timestamp) is not None
        return done

    return decode


def resident_mib() -> float:
    """Memory of this process that is in use, in MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20
