"""One part against its peers: its own line over the band of the others, for the measures that made it suspect.

Decides the figure, its sentence and its table out of a suspicion's evidence. Pure. Refuses evidence it cannot read: a
page without the chart is better than none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from dashboard.charts.figures import FAULTY, PEERS, TABLE_ROWS

BYTES = 1e-9
Point = tuple[datetime, float | None, float | None, float | None]  # when, own, low and high of the peers
NAMES = {
    "SM clock": gettext_lazy("SM clock"), "power": gettext_lazy("power"), "temperature": gettext_lazy("temperature"),
    "memory temperature": gettext_lazy("memory temperature"), "SM activity": gettext_lazy("SM activity"),
    "tensor activity": gettext_lazy("tensor activity"), "memory activity": gettext_lazy("memory activity"),
    "memory copies": gettext_lazy("memory copies"), "NVLink traffic": gettext_lazy("NVLink traffic"),
    "PCIe traffic": gettext_lazy("PCIe traffic"), "received": gettext_lazy("received"), "sent": gettext_lazy("sent"),
    "transmit wait": gettext_lazy("transmit wait"), "packets out of order": gettext_lazy("packets out of order"),
    "lost answers": gettext_lazy("lost answers"), "congestion notices": gettext_lazy("congestion notices"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Course:
    """One measure of a suspect. `place` is its number in the evidence; `rows` are its table, newest first."""

    place: int
    title: str
    unit: str
    points: list[Point]

    @property
    def text(self) -> str:
        known = [point for point in self.points if None not in point[1:]]
        if not known:
            return _("%(title)s: no data.") % {"title": self.title}
        _at, own, low, high = known[-1]
        own_words = f"{number(own)} {self.unit}".strip()
        return _("%(title)s: %(own)s at the end, its peers between %(low)s and %(high)s.") % {
            "title": self.title, "own": own_words, "low": number(low), "high": number(high),
        }  # fmt: skip

    @property
    def rows(self) -> list[tuple[datetime, str, str, str]]:
        step = max(1, len(self.points) // TABLE_ROWS)
        return [(at, number(own), number(low), number(high)) for at, own, low, high in self.points[::-1][::step]]


def courses(evidence: Mapping[str, Any]) -> list[Course]:
    """What the evidence of a suspicion holds; what cannot be read is left out."""
    found = []
    traces = evidence.get("traces")
    for place, trace in enumerate(traces if isinstance(traces, list) else ()):
        try:
            name, unit = str(trace["name"]), str(trace["unit"])
            scale = BYTES if unit == "B/s" else 1.0
            points = [_point(point, scale) for point in trace["points"]]
        except (KeyError, TypeError, ValueError):
            continue
        if points:
            title = str(NAMES.get(name, name))
            found.append(Course(place, title[:1].upper() + title[1:], "GB/s" if scale != 1 else unit, points))
    return found


def _point(stored: Sequence[Any], scale: float) -> Point:
    at, own, low, high = stored
    first, second, third = (None if value is None else float(value) * scale for value in (own, low, high))
    return datetime.fromisoformat(at), first, second, third


def figure(course: Course, part: str) -> dict[str, Any]:
    """`data`, `layout` and `text`."""
    times = [at.strftime("%Y-%m-%dT%H:%M:%SZ") for at, *_rest in course.points]
    own, low, high = ([point[place] for point in course.points] for place in (1, 2, 3))
    edge = {"type": "scatter", "mode": "lines", "line": {"width": 0}, "x": times, "name": _("peers")}
    suffix = f" {course.unit}" if course.unit else ""
    data = [
        {**edge, "y": low, "hoverinfo": "skip"},
        {**edge, "y": high, "fill": "tonexty", "fillcolor": PEERS, "hoverinfo": "skip"},
        {
            "type": "scatter", "mode": "lines", "name": part, "x": times, "y": own, "connectgaps": False,
            "line": {"color": FAULTY, "width": 1.75}, "hovertemplate": "%{y:.4~g}" + suffix,
        },
    ]  # fmt: skip
    layout = {"xaxis": {"type": "date", "range": [times[0], times[-1]]}, "yaxis": {"nticks": 4, "fixedrange": True}}
    return {"data": data, "layout": layout, "text": course.text}


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
