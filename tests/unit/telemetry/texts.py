"""Exposition text as exporters write it, for tests; and the slow, plain reading that the fast one must agree with."""

from __future__ import annotations

from collections import Counter

from fleet.telemetry.exposition import BadLine, Labels, read_line, read_value

Sample = tuple[str, tuple[tuple[str, str], ...], float, int | None]


class Series:
    """Remembers what the parser asked about, as a frame would."""

    def __init__(self) -> None:
        self.ids: dict[tuple[str, tuple[tuple[str, str], ...]], int] = {}
        self.asked = 0

    def new(self, name: str, labels: Labels, declared: str) -> int:
        self.asked += 1
        return self.ids.setdefault((name, tuple(sorted(labels.items()))), len(self.ids))

    def named(self, rows: list[int]) -> list[tuple[str, tuple[tuple[str, str], ...]]]:
        names = list(self.ids)
        return [names[row] for row in rows]


def plainly(body: bytes, wanted: frozenset[bytes] | None = None) -> tuple[list[Sample], Counter[str]]:
    """Line by line, no cache, no short cut."""
    samples: list[Sample] = []
    bad: Counter[str] = Counter()
    *lines, tail = body.split(b"\n")
    if tail.strip() and tail.strip() != b"# EOF":
        bad["cut_line"] += 1
    for line in lines:
        if not line.strip(b" \t\r") or line.strip(b" \t\r").startswith(b"#"):
            continue
        try:
            name, labels, token, stamp = read_line(line)
            value = read_value(token)
        except BadLine as error:
            bad[error.kind] += 1
            continue
        if wanted is None or name.encode() in wanted:
            samples.append((name, tuple(sorted(labels.items())), value, stamp))
    return samples, bad


def labels_of(node: str, gpu: int, **more: str) -> str:
    said = {
        "gpu": str(gpu),
        "UUID": f"GPU-{node}-{gpu}",
        "pci_bus_id": f"00000000:{0x1B + gpu:02X}:00.0",
        "device": f"nvidia{gpu}",
        "modelName": "NVIDIA H100 80GB HBM3",
        "Hostname": node,
        **more,
    }
    return ",".join(f'{key}="{value}"' for key, value in said.items())


def dcgm(node: str, values: dict[str, float], gpus: range | list[int] = range(8), **more: str) -> bytes:
    """One answer of dcgm-exporter with the same value on every GPU."""
    lines: list[str] = []
    for name, value in values.items():
        lines += [f"# HELP {name} Something.", f"# TYPE {name} gauge"]
        lines += [f"{name}{{{labels_of(node, gpu, **more)}}} {value}" for gpu in gpus]
    return ("\n".join(lines) + "\n").encode()
