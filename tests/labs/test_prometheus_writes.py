"""A real Prometheus scrapes a simulated fleet and remote-writes, by token and mutual TLS, to a running observer that
scrapes nothing itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from fleet.access.services import create_token
from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Cluster, Device, MetricsSource, Node
from fleet.telemetry.models import Rejection
from tests.adapters.kubernetes.world import simulated
from tests.builders import T0
from tests.certificates import certificates

PROMETHEUS = "/usr/bin/prometheus"
pytestmark = [
    pytest.mark.labs,
    pytest.mark.django_db(transaction=True),
    pytest.mark.skipif(
        shutil.which(PROMETHEUS) is None, reason=f"{PROMETHEUS} is not installed (Debian: apt-get install prometheus)"
    ),
]
JOBS = {"dcgm-exporter": "dcgm", "node-exporter": "node"}


def until(test: Callable[[], bool], seconds: float = 90) -> bool:
    """A real Prometheus starts, scrapes and resends at its own pace, which a busy machine makes slow."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if test():
            return True
        time.sleep(0.1)
    return False


@contextlib.contextmanager
def process(argv: list[str], log: Path, env: dict[str, str] | None = None) -> Iterator[None]:
    with log.open("wb") as out:
        child = subprocess.Popen(argv, env=env, cwd=settings.BASE_DIR, stdout=out, stderr=out)
        try:
            yield
        finally:
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()


def config(simulator: str, nodes: list[str], observer: str, token: str, keys: Path) -> str:
    lines = ["global: {scrape_interval: 1s, scrape_timeout: 1s, external_labels: {prometheus: lab}}", "scrape_configs:"]
    for job, path in JOBS.items():
        lines += [f"- job_name: {job}", "  static_configs:"]
        for node in nodes:
            labels = f'{{node: "{node}", instance: "{node}", __metrics_path__: "/nodes/{node}/{path}/metrics"}}'
            lines.append(f'  - {{targets: ["{urlsplit(simulator).netloc}"], labels: {labels}}}')
    lines += [
        "remote_write:",
        f"- url: {observer}/api/v1/write",
        f"  authorization: {{credentials: {token}}}",
        f"  tls_config: {{ca_file: {keys}/ours.pem, cert_file: {keys}/theirs.pem, key_file: {keys}/theirs.key}}",
        "  queue_config: {batch_send_deadline: 1s, min_shards: 3}",
    ]
    return "\n".join(lines) + "\n"


def counter(url: str, name: str) -> float:
    text = urllib.request.urlopen(f"{url}/metrics", timeout=5).read().decode()
    return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE))


def inject(simulator: str, fault: str, node: str, device: int) -> None:
    body = json.dumps({"fault": fault, "node": node, "device": device}).encode()
    request = urllib.request.Request(f"{simulator}/_sim/inject", body, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=5).close()


def found(node: str) -> str:
    """The cause of the one incident of a node."""
    return Incident.objects.filter(node__name=node).values_list("cause", flat=True).first() or ""


def told(folder: Path) -> str:
    logs = [(folder / name).read_text(errors="replace")[-1500:] for name in ("observer.log", "prometheus.log")]
    found = list(Incident.objects.values("node__name", "cause"))
    verdicts = list(NodeVerdict.objects.exclude(verdict="healthy").values("node__name", "verdict", "reason"))
    refused = list(Rejection.objects.values("source", "reason", "subject", "count"))
    return "\n".join([*logs, f"incidents {found}", f"verdicts {verdicts}", f"refused {refused}"])


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_faults_are_found_in_what_a_real_prometheus_writes(tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    keys = certificates(tmp_path)
    with simulated(tmp_path) as files:
        simulator = (files / "url").read_text().strip().rstrip("/")
        Cluster.objects.create(
            name="demo", kubeconfig=str(files / "kubeconfig"), selector="*", created_at=T0,
            metrics_source=MetricsSource.QUERY,
        )  # fmt: skip
        database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
        env = {
            **os.environ, "DATABASE_URL": database, "MUSTER_VAR": str(tmp_path), "MUSTER_SCRAPE_INTERVAL": "2",
            "MUSTER_PUSH_PORT": str(free_port()), "DJANGO_SETTINGS_MODULE": "fleet.settings",
            "MUSTER_PUSH_TLS_CERT": str(keys / "ours.pem"), "MUSTER_PUSH_TLS_KEY": str(keys / "ours.key"),
            "MUSTER_PUSH_TLS_CLIENTS": str(keys / "theirs.pem"),
        }  # fmt: skip
        with process([sys.executable, "manage.py", "observe", "demo"], tmp_path / "observer.log", env):
            assert until((run / "observer-demo.ready").is_file), (tmp_path / "observer.log").read_text()[-2000:]
            observer = (run / "observer-demo.url").read_text().strip()
            assert observer.startswith("https://")
            token = create_token(name="prometheus", scope="push", now=T0, by="minseo", cluster="demo")[1]
            nodes = sorted(Node.objects.values_list("name", flat=True))
            (tmp_path / "prometheus.yml").write_text(config(simulator, nodes, observer, token, keys))
            port = free_port()
            argv = [
                PROMETHEUS, f"--config.file={tmp_path / 'prometheus.yml'}",
                f"--storage.tsdb.path={tmp_path / 'tsdb'}", f"--web.listen-address=127.0.0.1:{port}",
            ]  # fmt: skip
            with process(argv, tmp_path / "prometheus.log"):
                assert until(lambda: set(NodeVerdict.objects.values_list("verdict", flat=True)) == {"healthy"}), list(
                    NodeVerdict.objects.values_list("verdict", "reason")
                )
                time.sleep(4)  # some whole scrapes, so that there is a baseline
                inject(simulator, "ecc_dbe", nodes[0], 3)
                inject(simulator, "gpu_lost", nodes[1], 5)
                assert until(lambda: found(nodes[0]) in ("ecc-dbe", "xid-48", "xid-95")), told(tmp_path)
                assert until(lambda: found(nodes[1]) in ("gpu-lost", "xid-79")), told(tmp_path)
                assert Incident.objects.count() == 2
                assert until(lambda: Device.objects.filter(kind="gpu").count() == 8 * len(nodes))
                prometheus = f"http://127.0.0.1:{port}"
                assert counter(prometheus, "prometheus_remote_storage_samples_total") > 1000
                assert counter(prometheus, "prometheus_remote_storage_samples_failed_total") == 0
                assert counter(prometheus, "prometheus_remote_storage_samples_dropped_total") == 0
