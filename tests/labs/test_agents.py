"""The programs beside the nodes: a real node_exporter, scraped by the list of targets; a real Alertmanager, which posts
to the observer by the given configuration. The cluster is nothing but a list.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from django.conf import settings
from django.db import connection

from fleet.access.services import create_token
from fleet.health.models import NodeVerdict, Signal
from fleet.inventory.models import Cluster
from tests.builders import T0
from tests.domain.observer.test_process import run
from tests.labs.test_prometheus_writes import free_port, process, until

NODE_EXPORTER, ALERTMANAGER = "prometheus-node-exporter", "prometheus-alertmanager"
AGENTS = Path(settings.BASE_DIR) / "deploy/agents"
NODE = "lab-1"
pytestmark = [pytest.mark.labs, pytest.mark.django_db(transaction=True)]


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed (Debian: apt-get install {program})"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def a_cluster(folder: Path, exporters: dict[str, str]) -> Cluster:
    (folder / "run").mkdir()
    place = folder / "targets.yml"
    place.write_text(yaml.safe_dump({"version": 1, "nodes": {NODE: {"exporters": exporters}}}))
    return Cluster.objects.create(name="lab", targets_file=str(place), selector="*", created_at=T0)


@contextlib.contextmanager
def observing(folder: Path) -> Iterator[str]:
    """A running observer of the cluster; its push address."""
    database = urlsplit(os.environ["DATABASE_URL"])._replace(path=f"/{connection.settings_dict['NAME']}").geturl()
    env = {
        **os.environ, "DATABASE_URL": database, "MUSTER_VAR": str(folder), "MUSTER_SCRAPE_INTERVAL": "2",
        "MUSTER_PUSH_PORT": str(free_port()), "DJANGO_SETTINGS_MODULE": "fleet.settings",
    }  # fmt: skip
    with process([sys.executable, "manage.py", "observe", "lab"], folder / "observer.log", env):
        assert until((folder / "run/observer-lab.ready").is_file), (folder / "observer.log").read_text()[-2000:]
        yield (folder / "run/observer-lab.url").read_text().strip()


def answers(url: str) -> bool:
    with contextlib.suppress(OSError):
        urllib.request.urlopen(url, timeout=2).close()
        return True
    return False


@needs(NODE_EXPORTER)
def test_a_real_node_exporter_is_scraped_by_the_list(tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    argv = [NODE_EXPORTER, f"--web.listen-address={urlsplit(url).netloc}", "--collector.mountstats"]
    with process([*argv, "--collector.processes"], tmp_path / "exporter.log"):
        assert until(lambda: answers(f"{url}/metrics")), (tmp_path / "exporter.log").read_text()[-1000:]
        a_cluster(tmp_path, {"node": f"{url}/metrics"})
        done = run(tmp_path, "observe", "lab", "--once")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["nodes"], told["targets"], told["scraped"]) == (1, 1, 1)
    assert told["samples"] > 10
    assert NodeVerdict.objects.get().node.name == NODE


@needs(ALERTMANAGER)
def test_a_real_alertmanager_posts_what_it_is_told(tmp_path: Path) -> None:
    a_cluster(tmp_path, {})
    with observing(tmp_path) as observer:
        (tmp_path / "push.token").write_text(
            create_token(name="alerts", scope="push", now=T0, by="minseo", cluster="lab")[1]
        )
        text = (AGENTS / "alertmanager/alertmanager.yml").read_text()
        text = text.replace("http://muster-observer:9470", observer).replace("group_wait: 5s", "group_wait: 0s")
        (tmp_path / "am.yml").write_text(text.replace("/etc/muster/push.token", str(tmp_path / "push.token")))
        url = f"http://127.0.0.1:{free_port()}"
        argv = [ALERTMANAGER, f"--config.file={tmp_path / 'am.yml'}", f"--storage.path={tmp_path / 'am'}"]
        argv += [f"--web.listen-address={urlsplit(url).netloc}", "--cluster.listen-address="]
        with process(argv, tmp_path / "am.log"):
            assert until(lambda: answers(f"{url}/-/ready")), (tmp_path / "am.log").read_text()[-1000:]
            alert = {"labels": {"alertname": "FanSlow", "node": NODE, "severity": "warning"}, "annotations": {}}
            request = urllib.request.Request(
                f"{url}/api/v2/alerts", json.dumps([alert]).encode(), {"Content-Type": "application/json"}
            )
            urllib.request.urlopen(request, timeout=5).close()
            assert until(Signal.objects.exists), (tmp_path / "am.log").read_text()[-1500:]
    signal = Signal.objects.get()
    assert signal.node.name == NODE and "FanSlow" in signal.title and signal.incident is None
