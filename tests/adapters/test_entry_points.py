"""What `fleet.wiring` calls: cheap to import, complete as ports, callable more than once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fleet.adapters import kubernetes, prometheus, redfish
from fleet.ports.cluster import ClusterActor, ClusterReader
from fleet.ports.metrics import MetricsReader
from fleet.ports.power import PowerPort
from tests.adapters.kubernetes.scripted import kubeconfig


def test_entry_points_give_ports_every_time(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:9")
    for _ in range(2):
        reader: ClusterReader = kubernetes.reader(path, node_selector="pool=a100")
        actor: ClusterActor = kubernetes.actor(path)
        port: PowerPort = redfish.power()
        metrics: MetricsReader = prometheus.reader(prometheus.Connection("http://127.0.0.1:9"))
        assert reader and actor and port and metrics


def test_importing_the_adapters_imports_no_vendor_library() -> None:
    code = (
        "import sys, fleet.adapters.kubernetes, fleet.adapters.prometheus, fleet.adapters.redfish\n"
        "print(sorted({'kubernetes', 'sushy', 'urllib3', 'django'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
