"""What the hosts say of where the time goes: processes wait for input, and the network is full or not.

Decides both per node of the frame. Refuses to read silence as either: a node that tells nothing waits for nothing.
"""

from __future__ import annotations

import numpy as np

from fleet.health.grey.measures import LOW, Measure
from fleet.health.grey.peers import Bools, medians
from fleet.health.grey.readings import Floats, Readings
from fleet.health.grey.window import Window
from fleet.telemetry import names
from fleet.telemetry.frame import Frame

BLOCKED = "node_procs_blocked"
PRESSURE = Measure("I/O pressure", "waiting", LOW, "s/s", 0.0, (names.IO_PRESSURE,), "rate")
PRESSED, BUSY = 0.2, 0.25  # seconds of waiting in each second; share of a port's rate


class Hosts:
    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self._readings = Readings()

    def wait(self, mono: float) -> Bools:
        """Whose processes are blocked, or wait for input in more than a fifth of the time since the last look."""
        blocked = self._by_node(self._of_hosts(BLOCKED, mono), BLOCKED)
        rows = self.frame.rows(names.IO_PRESSURE)
        if not len(rows):
            return blocked > 0
        hosts = self.frame.r.device[rows].astype(np.int64)
        pressed = self._by_node(self._readings.read(self.frame, PRESSURE, hosts, mono), names.IO_PRESSURE)
        return (blocked > 0) | (pressed > PRESSED)

    def network_busy(self, ports: Window) -> Bools:
        """Nodes with a port that was used for more than a quarter of its rate: then the network may be what is slow."""
        frame = self.frame
        busy = np.zeros(len(frame.nodes), dtype=bool)
        if not len(ports.parts) or not ports.taken:
            return busy
        rate = np.full(frame.d.size, np.nan, dtype=np.float32)
        rows = frame.rows(names.IB_RATE)
        if len(rows):
            rate[frame.r.device[rows]] = frame.r.value[rows]
        traffic = [place for place, measure in enumerate(ports.measures) if measure.domain == "traffic"]
        used = np.nan_to_num(medians(ports.values[traffic])).max(axis=0)
        with np.errstate(invalid="ignore"):
            full = used > BUSY * rate[ports.parts]
        busy[frame.d.node[ports.parts[full]]] = True
        return busy

    def _of_hosts(self, metric: str, mono: float) -> Floats:
        rows = self.frame.rows(metric)
        hosts = self.frame.r.device[rows].astype(np.int64) if len(rows) else np.empty(0, dtype=np.int64)
        return self._readings.latest(self.frame, metric, hosts, mono)

    def _by_node(self, values: Floats, metric: str) -> Floats:
        found = np.zeros(len(self.frame.nodes), dtype=np.float32)
        rows = self.frame.rows(metric)
        if len(rows):
            found[self.frame.r.node[rows]] = np.nan_to_num(values)
        return found
