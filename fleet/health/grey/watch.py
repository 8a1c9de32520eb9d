"""One watch over a cluster's grey failures: samples, looks, and what comes of a look.

Decides what is sampled and in which order it is looked at: GPUs, the ports of their nodes, then whole gangs. Hands out
edges of the action class `confirm`: an active test must confirm them before anything is mended. Refuses nodes we are
at work on: they have no gang here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import numpy as np

from fleet.health.grey import grouping, telling
from fleet.health.grey.advice import Advice, Advisor
from fleet.health.grey.hosts import Hosts
from fleet.health.grey.measures import (
    ACTIVITY,
    ACTIVITY_FALLBACK,
    DRAM,
    GPU_MEASURES,
    IDLE,
    IDLE_UTIL,
    PORT_MEASURES,
    TENSOR,
)
from fleet.health.grey.peers import Bools, Groups
from fleet.health.grey.sides import Found, Side
from fleet.health.grey.suspicion import ENOUGH
from fleet.health.grey.telling import RULE
from fleet.health.rules.types import Edge
from fleet.telemetry.frame import Frame

__all__ = ["RULE", "Look", "Watch"]
PORT_METRIC = "node_infiniband_port_data_transmitted_bytes_total"
_PLACE = {measure.name: place for place, measure in enumerate(GPU_MEASURES)}


@dataclass(slots=True)
class Look:
    """`standing` are suspicions that go on, with newer evidence; `few` GPUs work in groups too small to compare."""

    suspects: list[Edge] = field(default_factory=list)
    standing: list[Edge] = field(default_factory=list)
    cleared: list[tuple[str, str]] = field(default_factory=list)  # node, device
    advice: list[Advice] = field(default_factory=list)
    judged: int = 0
    few: int = 0


class Watch:
    """`look_seconds` is how far looks are apart."""

    def __init__(self, frame: Frame, look_seconds: float = 60.0) -> None:
        self.frame, self._look_seconds = frame, look_seconds
        self.gpus, self.ports = Side(frame, GPU_MEASURES), Side(frame, PORT_MEASURES)
        self._advisor, self._hosts = Advisor(), Hosts(frame)
        self._models, self._names = grouping.Kinds(), grouping.Kinds()
        self._slow: dict[str, int] = {}  # gang -> the look in which it was first seen to be slower

    def sample(self, mono: float) -> None:
        frame, gpus = self.frame, self.frame.gpus()
        read = self.gpus.window.readings.latest
        engine, used = (read(frame, metric, gpus, mono) for metric in (ACTIVITY, ACTIVITY_FALLBACK))
        active: Bools = np.where(np.isnan(engine), used > IDLE_UTIL, engine > IDLE)
        self.gpus.window.sample(frame, gpus, active, mono)
        rows = frame.rows(PORT_METRIC)
        ports = frame.r.device[rows].astype(np.int64) if len(rows) else np.empty(0, dtype=np.int64)
        working = np.zeros(len(frame.nodes), dtype=bool)
        working[frame.d.node[gpus[active]]] = True
        self.ports.window.sample(frame, ports, working[frame.d.node[ports]], mono)

    def adopt(self, open_now: Iterable[tuple[str, str]]) -> None:
        """The suspicions that stand now, as (node, device)."""
        known = list(open_now)
        for side in (self.gpus, self.ports):
            side.adopt(known)

    def look(
        self, gangs: Mapping[str, str], now: datetime, mono: float, roles: Mapping[str, str] | None = None
    ) -> Look:
        """Compare once. `gangs` and `roles` map a node to its gang and to its role in it, where one is known; nodes
        that must not be judged are left out of `gangs`."""
        look = Look()
        if not self.gpus.window.full:
            return look
        roles = roles or {}
        units = grouping.units(self.frame, gangs, roles)
        slow = np.array([self._slow.get(gang, -1) for gang in units.gangs] + [-1], dtype=np.int64)
        found = self._gpus(units, slow)
        for side, one in ((self.gpus, found), (self.ports, self._ports(units, slow))):
            self._tell(look, side, one, gangs, roles, now, mono)
        look.judged = int(found.distances.judged.any(axis=0).sum())
        look.few = int(found.distances.few.sum())
        look.advice = self._advise(found, units, mono)
        return look

    def _gpus(self, units: grouping.Units, slow: Groups) -> Found:
        side, devices = self.gpus, self.frame.devices
        new = side.window.parts[self._models.known :].tolist()
        model = self._models.of([devices[index].attrs.get("model", "") for index in new])
        unit = units.unit_of[side.node()]
        wider = np.where(unit >= 0, model, -1)
        groups = grouping.of_kind(unit, model, len(self._models))
        return side.look(groups, wider, slow[units.gang_of[side.node()]])

    def _ports(self, units: grouping.Units, slow: Groups) -> Found:
        side, devices = self.ports, self.frame.devices
        new = side.window.parts[self._names.known :].tolist()
        name = self._names.of([devices[index].key for index in new])
        unit = units.unit_of[side.node()]
        groups = grouping.rails(unit, name, len(self._names))
        return side.look(groups, np.full(len(groups), -1), slow[units.gang_of[side.node()]], courses=False)

    def _tell(
        self, look: Look, side: Side, found: Found, gangs: Mapping[str, str], roles: Mapping[str, str], now: datetime,
        mono: float,
    ) -> None:  # fmt: skip
        devices, parts = self.frame.devices, side.window.parts
        began = now - timedelta(seconds=ENOUGH * self._look_seconds)
        for told, places in ((look.suspects, found.fresh), (look.standing, found.standing)):
            for place in places.tolist():
                node = devices[int(parts[place])].node
                where = telling.Where(
                    gangs.get(node, ""), roles.get(node, ""), began, now, lambda at: now - timedelta(seconds=mono - at)
                )
                told.append(telling.edge(side, found, place, where))
        look.cleared += [(devices[i].node, devices[i].key) for i in parts[found.over].tolist()]

    def _advise(self, found: Found, units: grouping.Units, mono: float) -> list[Advice]:
        value, read = found.distances.value, self.gpus.window.readings.latest
        engine = read(self.frame, ACTIVITY, self.gpus.window.parts, mono)
        nodes = self.gpus.node()
        waits = self._hosts.wait(mono)[nodes] & ~self._hosts.network_busy(self.ports.window)[nodes]
        advice = self._advisor.take(
            units.gangs, units.gang_of[nodes], value[_PLACE[TENSOR]], value[_PLACE[DRAM]], engine, waits
        )
        slow = {one.gang for one in advice if one.slower}
        self._slow = {gang: self._slow.get(gang, self.gpus.suspicion.looks) for gang in sorted(slow)}
        return advice
