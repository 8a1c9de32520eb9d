"""A real Prometheus and a real VictoriaMetrics between a simulated fleet's exporters and our frame."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from fleet.adapters import prometheus
from fleet.ports.errors import PermanentError
from fleet.ports.history import Past, Whose
from fleet.ports.metrics import MetricsReader
from fleet.telemetry import names, promql
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.intake import Intake
from fleet.telemetry.promhistory import PromqlHistory
from tests.adapters.kubernetes.world import simulated
from tests.labs.metrics_servers import JOBS, PROGRAMS, MetricsServer, running

pytestmark = pytest.mark.labs
WANTED = {name for name in names.METRICS if names.METRICS[name].kind in ("gpu", "port", "mount")} | {names.NODE_TIME}


@pytest.fixture(scope="module", params=PROGRAMS)
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MetricsServer]:
    folder = tmp_path_factory.mktemp("lab")
    with simulated(folder) as files:
        url = (files / "url").read_text().strip().rstrip("/")
        nodes = [line.split(",")[0] for line in (files / "inventory.csv").read_text().splitlines()[1:] if line]
        with running(request.param, url, nodes, folder / "server") as started:
            yield started


@pytest.fixture(scope="module")
def reader(server: MetricsServer) -> MetricsReader:
    return prometheus.reader(prometheus.Connection(server.url))


class Asking:
    """Rounds against the server, every second."""

    def __init__(self, reader: MetricsReader, nodes: list[str]) -> None:
        self.reader, self.frame = reader, Frame()
        self.gleaner = Gleaner(self.frame, {name: name for name in nodes}.get, 1.0)
        self.beats, self.values = promql.questions(WANTED)

    def round(self) -> int:
        answers = self.reader.instants([question.expression for question in self.beats])
        mono, wall = time.monotonic(), time.time()
        self.gleaner.begin(list(zip(self.beats, answers, strict=True)), mono, wall)
        values = self.reader.instants([question.expression for question in self.values])
        for question, answer in zip(self.values, values, strict=True):
            self.gleaner.take(question, answer)
        return self.gleaner.finish(mono, wall)

    def until(self, holds: Callable[[], bool], seconds: float = 25.0) -> bool:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.round()
            if holds():
                return True
            time.sleep(0.5)
        return False

    def missed(self, node: str, gpu: int) -> int:
        found = next(d for d in self.frame.devices_on(node) if d.kind == "gpu" and d.attrs.get("index") == str(gpu))
        return int(self.frame.t.seq[found.target] - self.frame.d.seq[found.index])


@pytest.fixture(scope="module")
def asking(server: MetricsServer, reader: MetricsReader) -> Asking:
    asking = Asking(reader, server.nodes)
    assert asking.until(lambda: len(asking.frame.gpus()) == 8 * len(server.nodes))
    return asking


def scraped(server: MetricsServer) -> Frame:
    """The same exporters, scraped directly."""
    frame = Frame()
    intake = Intake(frame, {name: name for name in server.nodes}.get)
    for node in server.nodes:
        for job, path in JOBS.items():
            with urllib.request.urlopen(f"{server.simulator}/nodes/{node}/{path}/metrics", timeout=5) as answer:
                intake.scraped(frame.target(node, job, 1.0), answer.read(), time.monotonic(), time.time())
    return frame


def parts(frame: Frame, name: str) -> set[tuple[str, str]]:
    return {(frame.device_of(row).node, frame.device_of(row).key) for row in frame.rows(name).tolist()}


def test_the_same_series_come_by_query_as_by_scrape(server: MetricsServer, asking: Asking) -> None:
    direct = scraped(server)
    assert asking.until(lambda: all(parts(asking.frame, name) == parts(direct, name) for name in WANTED))
    for device in direct.devices:
        if device.kind in ("gpu", "port", "mount"):
            found = asking.frame.device(device.node, device.key)
            assert found is not None and found.attrs == device.attrs
    temperatures = asking.frame.rows(names.GPU_TEMP)
    assert asking.frame.fresh_rows(temperatures, time.monotonic()).all()
    assert not asking.gleaner.refused


def test_a_gpu_off_the_bus_is_missed_and_the_others_are_not(server: MetricsServer, asking: Asking) -> None:
    node = server.nodes[0]
    server.inject("gpu_lost", node, 3)
    assert asking.until(lambda: asking.missed(node, 3) >= 2)
    assert [asking.missed(node, gpu) for gpu in (0, 7)] == [0, 0]


def test_a_curve_over_time(reader: MetricsReader, asking: Asking) -> None:
    now = datetime.now(UTC)
    expression = f"avg by (UUID) ({promql.selector(names.GPU_TEMP)})"
    found = reader.over(expression, now - timedelta(minutes=1), now, 1)
    assert found.curves and all(20 < value < 110 for curve in found.curves for value in curve.values.tolist())


@pytest.mark.parametrize("hours", [0.02, 6])
def test_a_nodes_past_is_read_by_its_name(
    server: MetricsServer, reader: MetricsReader, asking: Asking, hours: float
) -> None:
    whose, keeper = Whose(1, server.nodes[1], (server.nodes[1],)), PromqlHistory(reader)

    def past(*measures: str) -> Past:
        now = datetime.now(UTC)
        return keeper.past(whose, now - timedelta(hours=hours), now, measures)

    assert asking.until(lambda: bool(past("gpu_temp").rows and past("ib_rx", "ib_tx").rows))
    assert len(past("gpu_temp").rows[-1][1]["gpu_temp"]) == 8
    assert bool(past("gpu_temp").low) == (hours > 1)
    assert past("ib_rx", "ib_tx").rows[-1][1]["ib_rx"] >= 0


def test_a_query_that_is_none_is_a_persons_to_mend(reader: MetricsReader) -> None:
    with pytest.raises(PermanentError) as caught:
        reader.instant("max by (((")
    assert caught.value.code == "bad_query"
    with pytest.raises(PermanentError) as caught:
        prometheus.reader(prometheus.Connection(f"{reader._base}/nowhere")).instant("up")  # type: ignore[attr-defined]
    assert caught.value.code in ("no_query_api", "metrics_refused")
