"""Prometheus and VictoriaMetrics as Debian packages them, scraping a simulated fleet.

Decides how they are started and that a test is skipped with a word where they are missing. Refuses to outlive a test.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = ("prometheus", "victoria-metrics")
JOBS = {"dcgm": "dcgm", "node": "node"}


@dataclass(frozen=True)
class MetricsServer:
    program: str
    url: str
    simulator: str
    nodes: list[str]

    def inject(self, fault: str, node: str, device: int = 0) -> None:
        body = json.dumps({"fault": fault, "node": node, "device": device}).encode()
        request = urllib.request.Request(f"{self.simulator}/_sim/inject", body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=5).close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _config(simulator: str, nodes: list[str], every: int) -> str:
    """One job per kind of exporter; `node` is put on every series, as relabelling from Kubernetes does."""
    host = simulator.removeprefix("http://").rstrip("/")
    lines = [f"global: {{scrape_interval: {every}s, scrape_timeout: {every}s}}", "scrape_configs:"]
    for job, path in JOBS.items():
        lines += [f"- job_name: {job}", "  static_configs:"]
        for node in nodes:
            labels = f'{{node: "{node}", instance: "{node}", __metrics_path__: "/nodes/{node}/{path}/metrics"}}'
            lines.append(f'  - {{targets: ["{host}"], labels: {labels}}}')
    return "\n".join(lines) + "\n"


def _command(program: str, port: int, config: Path, data: Path) -> list[str]:
    if program == "prometheus":
        return [
            program,
            f"--config.file={config}",
            f"--storage.tsdb.path={data}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
    return [
        program, f"-promscrape.config={config}", f"-storageDataPath={data}", f"-httpListenAddr=127.0.0.1:{port}",
        "-search.latencyOffset=1s", "-loggerLevel=ERROR",
    ]  # fmt: skip


@contextlib.contextmanager
def running(program: str, simulator: str, nodes: list[str], folder: Path, every: int = 1) -> Iterator[MetricsServer]:
    """`every` is the seconds between two scrapes of an exporter."""
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed (Debian: apt-get install {program})")
    folder.mkdir()
    (folder / "scrape.yml").write_text(_config(simulator, nodes, every))
    port = free_port()
    with (folder / "log").open("wb") as log:
        argv = _command(program, port, folder / "scrape.yml", folder / "data")
        process = subprocess.Popen(argv, stdout=log, stderr=log)
        try:
            _wait(port, process, folder / "log")
            yield MetricsServer(program, f"http://127.0.0.1:{port}", simulator, nodes)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def _wait(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 20
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1).close()
            return
        time.sleep(0.1)
    raise AssertionError(log.read_text(errors="replace")[-2000:])
