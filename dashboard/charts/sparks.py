"""A line of a hundred by twenty behind each GPU's numbers: how its power went over the range of the page.

Decides the path and that all GPUs of a node share one scale, so that the one that differs is seen. Read from rows the
page already has. Refuses to join what lies on both sides of a gap.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.readmodels.gpus import Gpu
from fleet.readmodels.node_page import NodePage

WIDTH, HEIGHT, MARGIN = 100, 20, 1
POINTS = 50
MEASURE = "gpu_power"
Values = Sequence[float | None]


def strips(page: NodePage) -> list[tuple[Gpu, str]]:
    """Each GPU with its path; empty where less than two values are known."""
    series = {
        gpu.index: _thinned([_value(data.get(MEASURE), gpu.index) for _at, data in page.rows]) for gpu in page.gpus
    }
    known = [value for values in series.values() for value in values if value is not None]
    low, high = min(known, default=0.0), max(known, default=0.0)
    return [(gpu, path(series[gpu.index], low, high)) for gpu in page.gpus]


def path(values: Values, low: float, high: float) -> str:
    """SVG path data; a gap begins a new line."""
    if sum(value is not None for value in values) < 2:
        return ""
    across, scale = WIDTH / (len(values) - 1), (HEIGHT - 2 * MARGIN) / (high - low) if high > low else 0.0
    parts, pen = [], "M"
    for place, value in enumerate(values):
        if value is None:
            pen = "M"
            continue
        y = HEIGHT - MARGIN - (value - low) * scale if scale else HEIGHT / 2
        parts.append(f"{pen}{place * across:.1f} {y:.1f}")
        pen = "L"
    return "".join(parts)


def _value(found: object, index: int) -> float | None:
    return found[index] if isinstance(found, list) and index < len(found) else None


def _thinned(values: Values) -> Values:
    """At most POINTS means of neighbours."""
    size = -(-len(values) // POINTS)
    if size <= 1:
        return values
    out: list[float | None] = []
    for at in range(0, len(values), size):
        part = [value for value in values[at : at + size] if value is not None]
        out.append(sum(part) / len(part) if part else None)
    return out
