"""Remote write requests for tests, written by hand so that odd ones can be written too."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence

import cramjam

from fleet.telemetry.remotewrite import STALE

Sample = tuple[float, int]
STALE_NAN: float = struct.unpack("<d", struct.pack("<Q", STALE))[0]


def number(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def block(field: int, content: bytes) -> bytes:
    return number(field << 3 | 2) + number(len(content)) + content


def sample(value: float, stamp: int) -> bytes:
    """As Prometheus writes it: zeros are left out."""
    first = b"" if value == 0 else b"\x09" + struct.pack("<d", value)
    return first + (b"" if stamp == 0 else b"\x10" + number(stamp))


def labels(pairs: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(block(1, block(1, name.encode()) + block(2, value.encode())) for name, value in pairs)


def series(pairs: Iterable[tuple[str, str]], samples: Sequence[Sample]) -> bytes:
    return labels(pairs) + b"".join(block(2, sample(*one)) for one in samples)


def first(many: Iterable[tuple[Mapping[str, str], Sequence[Sample]]]) -> bytes:
    """A request of version 1.0, packed."""
    body = b"".join(block(1, series(sorted(pairs.items()), samples)) for pairs, samples in many)
    return bytes(cramjam.snappy.compress_raw(body))


def second_plain(many: Iterable[tuple[Mapping[str, str], Sequence[Sample]]]) -> bytes:
    symbols: dict[str, int] = {"": 0}
    body = b""
    for pairs, samples in many:
        refs = [symbols.setdefault(text, len(symbols)) for pair in sorted(pairs.items()) for text in pair]
        one = block(1, b"".join(number(ref) for ref in refs))
        body += block(5, one + b"".join(block(2, sample(*each)) for each in samples))
    return b"".join(block(4, text.encode()) for text in symbols) + body


def second(many: Iterable[tuple[Mapping[str, str], Sequence[Sample]]]) -> bytes:
    """A request of version 2.0, packed."""
    return bytes(cramjam.snappy.compress_raw(second_plain(many)))


def gpu(node: str, index: int = 0, name: str = "DCGM_FI_DEV_GPU_TEMP", **more: str) -> dict[str, str]:
    return {
        "__name__": name,
        "UUID": f"GPU-{node}-{index}",
        "gpu": str(index),
        "pci_bus_id": f"00000000:{27 + index:02X}:00.0",
        "Hostname": node,
        "instance": "10.0.0.1:9400",
        "job": "dcgm-exporter",
        **more,
    }
