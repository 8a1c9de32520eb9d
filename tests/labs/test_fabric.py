"""A cable that flaps, in a running observer that hears its node's exporter and the fabric's manager."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.db import connection

from fleet.health.models import Incident, Signal
from fleet.inventory.models import Cluster, Node
from tests.adapters.kubernetes.world import simulated
from tests.builders import T0
from tests.labs.test_prometheus_writes import free_port, inject, process, until

pytestmark = [pytest.mark.labs, pytest.mark.django_db(transaction=True)]


def counted() -> set[str]:
    return {str(evidence.get("counted_by")) for evidence in Signal.objects.values_list("evidence", flat=True)}


def test_a_flapping_cable_is_one_incident_that_both_ends_tell_of(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with simulated(tmp_path) as files:
        Cluster.objects.create(
            name="demo", kubeconfig=str(files / "kubeconfig"), selector="*", created_at=T0,
            targets_file=str(files / "targets.yml"),
        )  # fmt: skip
        database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
        env = {
            **os.environ, "DATABASE_URL": database, "MUSTER_VAR": str(tmp_path), "MUSTER_SCRAPE_INTERVAL": "2",
            "MUSTER_PUSH_PORT": str(free_port()), "DJANGO_SETTINGS_MODULE": "fleet.settings",
            "MUSTER_DEMO_BMC": "admin:simulated",
        }  # fmt: skip
        list_ = files / "targets.yml"
        list_.write_text(list_.read_text().replace("every: 30", "every: 2"))
        log = tmp_path / "observer.log"
        with process([sys.executable, "manage.py", "observe", "demo"], log, env):
            assert until((tmp_path / "run/observer-demo.ready").is_file), log.read_text()[-2000:]
            node = Node.objects.order_by("name")[0].name
            assert until(lambda: Cluster.objects.get().conditions == []), Cluster.objects.get().conditions
            assert until(lambda: Node.objects.get(name=node).devices.filter(kind="hca").count() == 8)
            inject((files / "url").read_text().strip().rstrip("/"), "ib_flap", node, 3)
            assert until(lambda: {"node", "switch"} <= counted(), 60), log.read_text()[-2000:]
    incident = Incident.objects.get()
    assert (incident.node.name if incident.node else "", incident.device) == (node, "mlx5_3/1")
    assert "mlx5_3/1 ↔ " in incident.title
    assert "admin:simulated" not in log.read_text()
