"""One watch over a cluster's grey failures: samples, looks, and what comes of a look.

Decides who are peers: GPUs of one model in one gang. Hands out edges of the action class `confirm`, which plans
nothing: an active test must confirm them. Refuses nodes we are at work on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from fleet.health.grey.advice import Advice, Advisor
from fleet.health.grey.measures import ACTIVITY, MEASURES
from fleet.health.grey.peers import Distances, compare
from fleet.health.grey.suspicion import ENOUGH, Said, Suspicion
from fleet.health.grey.window import Floats, Indices, Window
from fleet.health.rules.types import ActionClass, Edge
from fleet.telemetry.frame import Frame

RULE = "grey-suspect"
ACTION: ActionClass = "confirm"
BLOCKED = "node_procs_blocked"
_PLACE = {measure.metric: place for place, measure in enumerate(MEASURES)}


@dataclass(slots=True)
class Look:
    suspects: list[Edge] = field(default_factory=list)
    cleared: list[tuple[str, str]] = field(default_factory=list)  # node, device
    advice: list[Advice] = field(default_factory=list)
    judged: int = 0


class Watch:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.window = Window()
        self.suspicion = Suspicion()
        self._advisor = Advisor()
        self._models: list[int] = []  # of each GPU
        self._model_number: dict[str, int] = {}

    def sample(self, mono: float) -> None:
        self.window.sample(self.frame, mono)

    def adopt(self, open_now: Iterable[tuple[str, str]]) -> None:
        """The suspicions that stand now, as (node, device): some ended elsewhere, some are from before a start."""
        self.suspicion.grow(len(self.window.gpus))
        self.suspicion.suspect[:] = False
        for node, key in open_now:
            device = self.frame.device(node, key)
            place = int(np.searchsorted(self.window.gpus, device.index)) if device is not None else -1
            if 0 <= place < len(self.suspicion.suspect) and device and self.window.gpus[place] == device.index:
                self.suspicion.suspect[place] = True

    def look(self, gangs: Mapping[str, str], now: datetime, mono: float) -> Look:
        """Compare once. `gangs` maps a node to its gang; nodes that must not be judged are left out."""
        look = Look()
        if not self.window.full:
            return look
        names, of, groups = self._groups(gangs)
        found = compare(self.window.values, self.window.active, groups)
        look.judged = int(found.judged.any(axis=0).sum())
        fresh, over = self.suspicion.take(found)
        look.suspects = [self._edge(found, int(place), gangs, groups, now) for place in fresh]
        devices = self.frame.devices
        look.cleared = [(devices[i].node, devices[i].key) for i in self.window.gpus[over].tolist()]
        look.advice = self._advise(found, names, of, mono)
        return look

    def _groups(self, gangs: Mapping[str, str]) -> tuple[list[str], Indices, Indices]:
        """The gangs; each GPU's place among them and its number of (gang, model), -1 for none."""
        devices, gpus = self.frame.devices, self.window.gpus
        for index in gpus[len(self._models) :].tolist():
            self._models.append(
                self._model_number.setdefault(devices[index].attrs.get("model", ""), len(self._model_number))
            )
        names = sorted(set(gangs.values()) - {""})
        place = {gang: number for number, gang in enumerate(names)}
        by_node = np.array([place.get(gangs.get(node, ""), -1) for node in list(self.frame.nodes)], dtype=np.int64)
        of = by_node[self.frame.d.node[gpus]] if len(gpus) else np.empty(0, dtype=np.int64)
        groups = np.where(of >= 0, of * len(self._model_number) + np.array(self._models, dtype=np.int64), -1)
        return names, of, groups

    def _edge(self, found: Distances, place: int, gangs: Mapping[str, str], groups: Indices, now: datetime) -> Edge:
        device = self.frame.devices[int(self.window.gpus[place])]
        said = self.suspicion.said(found, place)
        gpu = device.attrs.get("index", device.key)
        peers = int((groups == groups[place]).sum()) - 1
        return Edge(
            kind="opened", rule_id=RULE, node=device.node, device=device.key, code="", cause=RULE, severity="degraded",
            action_class=ACTION, title="GPU %(gpu)s does not work like its %(peers)s peers: %(what)s",
            args={"gpu": gpu, "peers": str(peers), "what": ", ".join(words(one) for one in said[:3])},
            first_bad_at=now - timedelta(minutes=ENOUGH), detected_at=now, source="dcgm",
            evidence={"gang": gangs.get(device.node, ""), "peers": peers, "measures": [_plain(one) for one in said]},
        )  # fmt: skip

    def _advise(self, found: Distances, names: list[str], of: Indices, mono: float) -> list[Advice]:
        tensor, dram = (found.value[_PLACE[f"DCGM_FI_PROF_{what}_ACTIVE"]] for what in ("PIPE_TENSOR", "DRAM"))
        engine = self.window.latest(self.frame, ACTIVITY, mono)
        return self._advisor.take(names, of, tensor, dram, engine, self._waiting(mono))

    def _waiting(self, mono: float) -> Floats:
        """Blocked processes of the host of each GPU."""
        frame, rows = self.frame, self.frame.rows(BLOCKED)
        by_node = np.zeros(len(frame.nodes) + 1, dtype=np.float32)
        if len(rows):
            fresh = rows[frame.fresh_rows(rows, mono)]
            by_node[frame.r.node[fresh]] = frame.r.value[fresh]
        return by_node[frame.d.node[self.window.gpus]]


def words(said: Said) -> str:
    """`SM clock 990 MHz against 1980`."""
    unit = f" {said.unit}" if said.unit else ""
    return f"{said.name} {_number(said.value)}{unit} against {_number(said.peers)}"


def _number(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 10 else f"{value:.2f}"


def _plain(said: Said) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in asdict(said).items()}
