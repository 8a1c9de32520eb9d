"""The real command against a simulated fleet: one pass, and a life from the lease to the signal."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.db import connection

from fleet.access.services import create_token
from fleet.health.models import Incident, NodeVerdict
from fleet.inventory.models import Cluster, Device, Node
from fleet.lifecycle.models import NodeLifecycle, Workflow
from tests.builders import T0
from tests.patience import PATIENCE, until

pytestmark = pytest.mark.django_db(transaction=True)
NODES = 8


@pytest.fixture
def var(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def simulator(var: Path) -> Iterator[Path]:
    """A small fleet of its own process; the folder with its kubeconfig."""
    argv = [sys.executable, "-m", "fleet.simulator", "--nodes", str(NODES), "--var", str(var)]
    process = subprocess.Popen(argv, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until((var / "simulator" / "url").is_file)
        yield var / "simulator"
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def cluster(simulator: Path) -> Cluster:
    return Cluster.objects.create(name="demo", kubeconfig=str(simulator / "kubeconfig"), selector="*", created_at=T0)


def command(var: Path, *argv: str) -> tuple[list[str], dict[str, str]]:
    name = str(connection.settings_dict["NAME"])
    url = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{name}").geturl()
    extra = {
        "DATABASE_URL": url,
        "MUSTER_VAR": str(var),
        "MUSTER_SCRAPE_INTERVAL": "2",
        "MUSTER_PUSH_PORT": "29470",
        "DJANGO_SETTINGS_MODULE": "fleet.settings",
    }
    return [sys.executable, "manage.py", *argv], {**os.environ, **extra}


def run(var: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    args, env = command(var, *argv)
    return subprocess.run(
        args, env=env, cwd=settings.BASE_DIR, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )


def test_one_pass_tells_what_it_saw(cluster: Cluster, var: Path) -> None:
    done = run(var, "observe", "demo", "--once")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert list(summary) == [
        "cluster", "nodes", "pods", "targets", "scraped", "queries", "samples", "signals", "incidents", "plans",
        "seconds",
    ]  # fmt: skip
    assert (summary["nodes"], summary["targets"], summary["scraped"], summary["incidents"]) == (
        NODES,
        2 * NODES,
        2 * NODES,
        0,
    )
    assert set(NodeVerdict.objects.values_list("verdict", flat=True)) == {"healthy"}
    assert set(NodeLifecycle.objects.values_list("state", flat=True)) == {"in_service"}
    assert Device.objects.filter(kind="gpu").count() == 8 * NODES
    assert Cluster.objects.get().observer == "" and Cluster.objects.get().connected_at is not None


def test_a_cluster_that_cannot_be_reached_is_said_in_words(cluster: Cluster, var: Path) -> None:
    config = var / "nowhere"
    config.write_text(re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:9", Path(cluster.kubeconfig).read_text()))
    Cluster.objects.update(kubeconfig=str(config))
    done = run(var, "observe", "demo", "--once")
    assert done.returncode != 0 and "127.0.0.1" in done.stderr


def inject(simulator: Path, fault: str, node: str, device: int) -> None:
    body = json.dumps({"fault": fault, "node": node, "device": device}).encode()
    url = (simulator / "url").read_text().strip().rstrip("/")
    urllib.request.urlopen(urllib.request.Request(f"{url}/_sim/inject", data=body, method="POST"), timeout=PATIENCE)


def test_an_observer_sees_a_fault_and_ends_when_asked(cluster: Cluster, var: Path, simulator: Path) -> None:
    secret = create_token(name="shipper", scope="push", now=T0, by="minseo", cluster="demo")[1]
    (var / "run" / "push-demo.token").write_text(secret)
    args, env = command(var, "observe", "demo")
    process = subprocess.Popen(
        args, env=env, cwd=settings.BASE_DIR, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until((var / "run" / "observer-demo.ready").is_file)
        assert (var / "run" / "observer-demo.url").read_text().startswith("http://127.0.0.1:")
        node = Node.objects.order_by("name").first()
        assert node is not None
        inject(simulator, "xid79", node.name, 3)
        until(Incident.objects.filter(node=node, cause="xid-79").exists)
        assert Workflow.objects.get().state == "planned"
        until(NodeVerdict.objects.filter(node=node, verdict="unhealthy").exists)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
        assert Cluster.objects.get().observer == ""
        assert not (var / "run" / "observer-demo.ready").exists()
    finally:
        process.kill()
        process.wait(PATIENCE)
