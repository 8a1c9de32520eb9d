"""One pass of the real observer over a cluster whose only source of telemetry is a real Prometheus."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from fleet.inventory.models import Cluster, Device, MetricsSource
from tests.adapters.kubernetes.world import simulated
from tests.builders import T0
from tests.domain.observer.test_process import run
from tests.labs.metrics_servers import running

pytestmark = [pytest.mark.labs, pytest.mark.django_db(transaction=True)]


def test_a_pass_reads_everything_from_the_metrics_api(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with simulated(tmp_path) as files:
        url = (files / "url").read_text().strip().rstrip("/")
        nodes = [line.split(",")[0] for line in (files / "inventory.csv").read_text().splitlines()[1:] if line]
        with running("prometheus", url, nodes, tmp_path / "server") as server:
            cluster = Cluster.objects.create(
                name="demo",
                kubeconfig=str(files / "kubeconfig"),
                selector="*",
                created_at=T0,
                prometheus_url=server.url,
                metrics_source=MetricsSource.QUERY,
            )
            time.sleep(6)  # a few scrapes of the server
            done = run(tmp_path, "observe", "demo", "--once")
            told = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert (told["targets"], told["scraped"]) == (0, 0)
    assert told["queries"] > 10 and told["samples"] > 8 * len(nodes)
    assert Device.objects.filter(node__cluster=cluster, kind="gpu").count() == 8 * len(nodes)
