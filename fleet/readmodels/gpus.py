"""What stands on each GPU and port of a node now.

Decides the newest value of every measure, and when a GPU counts as gone: unhealthy or lost without a value, while its
neighbours have one. Pure over rows already read. Refuses to show an old value as a fresh one: its age goes with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from fleet.health.models import NodeVerdict, Signal
from fleet.inventory.models import Device, Node
from fleet.readmodels.measures import Rows


@dataclass(frozen=True, slots=True)
class Gpu:
    index: int
    key: str
    verdict: str
    reason: str
    since: datetime | None
    temp: float | None = None
    power: float | None = None
    util: float | None = None
    clock: float | None = None
    code: str = ""
    title: str = ""
    serial: str = ""
    gone: bool = False

    @property
    def measured(self) -> bool:
        return not (self.temp is None and self.power is None and self.util is None)

    @property
    def said(self) -> str:
        """What is wrong with it in a few words."""
        text = (self.reason or self.title or _("gone")).rstrip(".")
        return text[:1].upper() + text[1:]

    @property
    def fault(self) -> str:
        """`Xid 79` for a number; another code as it is."""
        return f"Xid {self.code}" if self.code.isdecimal() else self.code


@dataclass(frozen=True, slots=True)
class Port:
    key: str
    verdict: str
    reason: str


def gpus_of(
    node: Node, devices: Sequence[Device], verdict: NodeVerdict, signals: Sequence[Signal], rows: Rows, stale: bool
) -> list[Gpu]:
    """One entry per GPU that the node should have, by index. `stale`: what no value backs is unknown."""
    parts = {part.index: part for part in devices if part.kind == "gpu" and part.index is not None}
    width = max([node.gpu_expected or 0, *(index + 1 for index in parts), _width(rows)], default=0)
    return [_gpu(index, parts.get(index), verdict, signals, rows, stale) for index in range(width)]


def _gpu(
    index: int, part: Device | None, verdict: NodeVerdict, signals: Sequence[Signal], rows: Rows, stale: bool
) -> Gpu:
    key = part.key if part else ""
    names = {key, f"GPU-{index}", str(index)} - {""}
    if part and part.pci:
        names.add(f"pci:{part.pci}")
    state, reason, since = _device(verdict, names)
    mine = next((signal for signal in signals if signal.device in names), None)
    if mine is not None and state == "healthy":
        state, reason, since = mine.severity, mine.title, mine.opened_at
    values = {name: latest(rows, f"gpu_{name}", index) for name in ("temp", "power", "util", "clock")}
    silent = all(value is None for value in values.values())
    bad = state in ("unhealthy", "lost")
    before = bool(rows) and since is not None and rows[-1][0] < since
    gone = bool(part and part.gone_at) or (bad and (silent or before))
    if not gone and state == "healthy" and (stale or (silent and verdict.verdict == "unknown")):
        state, reason, since = "unknown", verdict.reason, verdict.telemetry_at
    return Gpu(
        index=index, key=key, verdict=state, reason=reason, since=since, code=mine.code if mine else "",
        title=mine.title if mine else "", serial=part.serial if part else "", gone=gone, **values,
    )  # fmt: skip


def _device(verdict: NodeVerdict, names: set[str]) -> tuple[str, str, datetime | None]:
    for name in names:
        found = verdict.devices.get(name)
        if found:
            state, reason, since = (*found, "", None)[:3]
            return str(state), str(reason or ""), _when(since)
    return "healthy", "", None


def _when(value: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(value)) if value else None
    except ValueError:
        return None


def ports_of(devices: Sequence[Device], verdict: NodeVerdict) -> list[Port]:
    """One entry per HCA port known, in order of its name."""
    ports = [part for part in devices if part.kind == "hca" and part.gone_at is None]
    found = []
    for part in ports:
        state, reason, _since = _device(verdict, {part.key})
        found.append(Port(part.key, state, reason))
    return found


def latest(rows: Rows, name: str, index: int) -> float | None:
    """The newest row's value of one GPU; None where the newest row has none."""
    for _at, data in reversed(rows):
        values = data.get(name)
        if isinstance(values, list):
            value = values[index] if index < len(values) else None
            return None if value is None else float(value)
    return None


def _width(rows: Rows) -> int:
    return max((len(data.get("gpu_temp") or ()) for _at, data in rows[-1:]), default=0)
