"""A round of questions about a whole fleet, to a real Prometheus and a real VictoriaMetrics: how long, and how much.

The fleet has MUSTER_LAB_NODES nodes (200 if not said). The figures are printed as one line of JSON.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.adapters import prometheus
from fleet.observer.querying import ALWAYS, rule_reads
from fleet.telemetry import names, promql
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from tests.adapters.kubernetes.world import simulated
from tests.labs.metrics_servers import PROGRAMS, MetricsServer, running

pytestmark = [pytest.mark.labs, pytest.mark.slow]
NODES = int(os.environ.get("MUSTER_LAB_NODES", "200"))
EVERY = 15
ROUNDS = 3


@pytest.fixture(params=PROGRAMS)
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MetricsServer]:
    with simulated(tmp_path, NODES) as files:
        url = (files / "url").read_text().strip().rstrip("/")
        nodes = [line.split(",")[0] for line in (files / "inventory.csv").read_text().splitlines()[1:] if line]
        with running(request.param, url, nodes, tmp_path / "server", EVERY) as started:
            yield started


class Asking:
    """What the observer asks in each cycle, in one thread so that waiting and work can be told apart."""

    def __init__(self, server: MetricsServer) -> None:
        self.reader = prometheus.reader(prometheus.Connection(server.url, timeout=30.0))
        self.frame = Frame()
        self.gleaner = Gleaner(self.frame, {name: name for name in server.nodes}.get, float(EVERY))
        self.beats, self.values = promql.questions({*rule_reads(), *ALWAYS})

    def round(self) -> dict[str, float]:
        began, worked = time.monotonic(), time.process_time()
        answers = self.reader.instants([question.expression for question in self.beats])
        self.gleaner.begin(list(zip(self.beats, answers, strict=True)), time.monotonic(), time.time())
        values = self.reader.instants([question.expression for question in self.values])
        asked = time.monotonic()
        for question, answer in zip(self.values, values, strict=True):
            self.gleaner.take(question, answer)
        written = self.gleaner.finish(time.monotonic(), time.time())
        now = time.monotonic()
        return {
            "seconds": round(now - began, 2), "written_in": round(now - asked, 2), "samples": written,
            "cpu": round(time.process_time() - worked, 2),
            "series": sum(len(answer.labels) for answer in values),
        }  # fmt: skip


def test_a_round_over_a_fleet_fits_into_its_interval(server: MetricsServer, capsys: pytest.CaptureFixture[str]) -> None:
    asking = Asking(server)
    wanted, end = 8 * len(server.nodes), time.monotonic() + 10 * EVERY
    while len(asking.frame.gpus()) < wanted and time.monotonic() < end:
        time.sleep(3)
        asking.round()
    assert len(asking.frame.gpus()) == wanted
    rounds = []
    for _ in range(ROUNDS):
        time.sleep(EVERY)
        rounds.append(asking.round())
    queries = len(asking.beats) + len(asking.values)
    with capsys.disabled():
        print(json.dumps({"program": server.program, "nodes": len(server.nodes), "queries": queries, "rounds": rounds}))
    assert all(made["seconds"] < EVERY for made in rounds)
    assert all(made["samples"] > 100 * len(server.nodes) for made in rounds)
    assert asking.frame.fresh_rows(asking.frame.rows(names.GPU_TEMP), time.monotonic()).all()
    assert not asking.gleaner.refused
