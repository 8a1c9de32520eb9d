"""A suspicion in words and as evidence.

Decides the sentence, which measures it names, and the courses that a chart shows. The action class is `confirm`: it
plans nothing by itself and asks for an active test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from fleet.health.grey.sides import Found, Side
from fleet.health.grey.suspicion import Said
from fleet.health.rules.types import ActionClass, Edge
from fleet.telemetry.frame import Device

RULE = "grey-suspect"
ACTION: ActionClass = "confirm"
TRACES = "traces"  # the part of the evidence that a chart shows: name, unit and [when, own, low, high] of each
SHOWN, POINTS = 2, 120
TITLES = {
    "gpu": "GPU %(part)s does not work like its %(peers)s peers: %(what)s",
    "port": "Port %(part)s does not work like its %(peers)s peers: %(what)s",
}
WIDE = "GPU %(part)s does not work like other GPUs of its model, and has only %(peers)s peers: %(what)s"


@dataclass(frozen=True, slots=True)
class Where:
    """What is told besides the measures. `moment` turns the monotonic time of a sample into that of people."""

    gang: str
    role: str
    began: datetime
    now: datetime
    moment: Callable[[float], datetime]


def edge(side: Side, found: Found, place: int, where: Where) -> Edge:
    device: Device = side.frame.devices[int(side.window.parts[place])]
    said = side.suspicion.said(found.distances, place)
    peers = int((found.groups == found.groups[place]).sum()) - 1
    wide = bool(found.distances.wide[place])
    what = ", ".join(words(one) for one in said[:3])
    evidence: dict[str, Any] = {
        "text": what, "gang": where.gang, "role": where.role, "peers": peers,
        "measures": [_plain(one) for one in said], TRACES: _traces(side, place, said, where.moment),
    }  # fmt: skip
    if wide:
        evidence["confidence"] = "low: measured against its model, because its gang has too few peers"
    return Edge(
        kind="opened", rule_id=RULE, node=device.node, device=device.key, code="", cause=RULE, severity="degraded",
        action_class=ACTION, title=WIDE if wide else TITLES[device.kind],
        args={"part": device.attrs.get("index") or device.key, "peers": str(peers), "what": what},
        first_bad_at=where.began, detected_at=where.now, source="dcgm" if device.kind == "gpu" else "node_exporter",
        evidence=evidence,
    )  # fmt: skip


def _traces(side: Side, place: int, said: list[Said], moment: Callable[[float], datetime]) -> list[dict[str, Any]]:
    number = {measure.name: place for place, measure in enumerate(side.measures)}
    return [
        {
            "name": one.name,
            "unit": one.unit,
            "points": [
                [moment(when).isoformat(timespec="seconds"), own, low, high]
                for when, own, low, high in side.traces.course(place, number[one.name])[-POINTS:]
            ],
        }
        for one in said[:SHOWN]
    ]


def words(said: Said) -> str:
    """`SM clock 990 MHz against 1980`."""
    if said.unit == "B/s":
        return f"{said.name} {said.value / 1e9:.2f} GB/s against {said.peers / 1e9:.2f}"
    unit = f" {said.unit}" if said.unit else ""
    return f"{said.name} {_number(said.value)}{unit} against {_number(said.peers)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _plain(said: Said) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(said).items()}
