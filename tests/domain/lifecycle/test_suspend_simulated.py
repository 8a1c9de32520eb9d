"""The engine suspends jobs of a simulated cluster, whose controllers end their pods and make them again elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from fleet.adapters import kubernetes
from fleet.inventory.models import Cluster, Node
from fleet.lifecycle.context import Ports
from fleet.lifecycle.suspending import resuming
from fleet.lifecycle.suspending.models import Suspension
from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.builders import TestClock, a_bmc, a_node
from tests.domain.lifecycle.conftest import Build, again
from tests.domain.lifecycle.test_drain_jobs import planned_drain
from tests.gang_rows import a_gang_row
from tests.patience import until
from tests.unit.simulator.client import Client
from tests.unit.simulator.test_suspending import KINDS

MARK = "muster.dev/suspended"
RAY = {
    "gangs": {
        "pools": [{"name": "shared", "nodes": 2}],
        "queues": [{"name": "team", "namespace": "team-a", "gpus": 16}],
        "teams": [{"name": "llm", "namespace": "team-a", "pool": "shared", "workers": 2, "queue": "team"}],
    }
}


@pytest.fixture
def clock() -> TestClock:
    """Pods tell real times."""
    return TestClock(datetime.now(UTC))


@pytest.fixture
def calm(tmp_path: Path) -> Iterator[Client]:
    with running(Options(nodes=16, var=tmp_path, speed=50)) as simulator:
        yield Client(simulator)


@pytest.fixture
def kueue(tmp_path: Path) -> Iterator[Client]:
    file = tmp_path / "ray.yaml"
    file.write_text(yaml.safe_dump(RAY))
    with running(Options(nodes=16, var=tmp_path, scenario=str(file), speed=50)) as simulator:
        yield Client(simulator)


class Fleet:
    """The engine's world on the simulated cluster's API server."""

    def __init__(self, client: Client, build: Build, patch: pytest.MonkeyPatch, kinds: dict[str, list[str]]) -> None:
        self.client = client
        folder = client.simulator.options.folder
        read, act = str(folder / "kubeconfig"), str(folder / "act.kubeconfig")
        self.reader, actor = kubernetes.reader(read), kubernetes.actor(act)
        self.port = kubernetes.suspends(act, kinds=kinds)
        self.world = build(fleet=0)

        def ports_of(cluster: Cluster) -> Ports:
            power = self.world
            return Ports(self.reader, actor, power, power.target, lambda: True, suspends=self.port)

        patch.setattr(self.world, "ports_of", ports_of)
        Cluster.objects.update(observer_until=self.world.clock.now() + timedelta(days=1))

    def node(self, name: str) -> Node:
        seen = self.reader.node(name)
        node = a_node(self.world.cluster, name, uid=seen.uid, boot_id=seen.boot_id, rack=name, leaf=name)
        a_bmc(node)
        self.world.add(node)
        return node

    def pods(self, begins: str, namespace: str = "default") -> list[Any]:
        """Those that run."""
        found = self.client.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
        mine = [pod for pod in found if pod["metadata"]["name"].startswith(begins)]
        return [p for p in mine if p["status"]["phase"] == "Running" and "deletionTimestamp" not in p["metadata"]]

    def goes_on(self, holds: Callable[[], Any]) -> None:
        def look() -> Any:
            self.world.run(1)
            resuming.sweep(Cluster.objects.get(), self.port, self.world.clock.now())
            return holds()

        until(look, every=0.1)


@pytest.mark.parametrize("plural", ["jobs", "trainjobs", "pytorchjobs"])
def test_its_pods_end_together_and_come_back_elsewhere(
    calm: Client, build: Build, monkeypatch: pytest.MonkeyPatch, plural: str
) -> None:
    version, spec, _, _ = KINDS[plural]
    path = f"/apis/{version}/namespaces/default/{plural}"
    calm.call("POST", path, {"metadata": {"name": "llm"}, "spec": spec})
    fleet = Fleet(calm, build, monkeypatch, {"default": ["Job", "TrainJob", "PyTorchJob"]})
    until(lambda: len(fleet.pods("llm-")) == 2)
    before = {pod["metadata"]["uid"] for pod in fleet.pods("llm-")}
    nodes = {pod["spec"]["nodeName"] for pod in fleet.pods("llm-")}
    for name in nodes:
        fleet.node(name)
    members = [[f"default/{p['metadata']['name']}", p["spec"]["nodeName"], "ready"] for p in fleet.pods("llm-")]
    a_gang_row(fleet.world.cluster, nodes=sorted(nodes), members=members)
    workflows = [planned_drain(fleet.world, name) for name in sorted(nodes)]
    fleet.goes_on(lambda: all(again(one).verb == "keep" for one in workflows))
    fleet.goes_on(lambda: not Suspension.objects.filter(ended_at=None).exists())
    until(lambda: len(fleet.pods("llm-")) == 2)
    assert not before & {pod["metadata"]["uid"] for pod in fleet.pods("llm-")}
    assert not nodes & {pod["spec"]["nodeName"] for pod in fleet.pods("llm-")}
    (row,) = Suspension.objects.all()
    assert row.state == "resumed", "once, for both nodes"
    job = fleet.client.get(f"{path}/llm")
    assert MARK not in (job["metadata"].get("annotations") or {}) and job["metadata"]["generation"] == 3


def test_a_job_of_kueue_goes_by_its_workload_and_queues_anew(
    kueue: Client, build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    fleet = Fleet(kueue, build, monkeypatch, {"team-a": ["RayJob", "Workload"]})
    until(lambda: len(fleet.pods("llm-", "team-a")) == 3)
    workers = [p for p in fleet.pods("llm-", "team-a") if p["metadata"]["labels"]["ray.io/node-type"] == "worker"]
    name = workers[0]["spec"]["nodeName"]
    fleet.node(name)
    workflow = planned_drain(fleet.world, name)
    fleet.goes_on(lambda: again(workflow).verb == "keep")
    fleet.goes_on(lambda: not Suspension.objects.filter(ended_at=None).exists())
    (row,) = Suspension.objects.all()
    assert (row.kind, row.state) == ("Workload", "resumed")
    (workload,) = fleet.client.get("/apis/kueue.x-k8s.io/v1beta2/namespaces/team-a/workloads")["items"]
    assert workload["spec"]["active"] is True
    told = {c["type"]: c for c in workload["status"]["conditions"]}
    assert told["Evicted"]["reason"] == "Deactivated"
    job = "/apis/ray.io/v1/namespaces/team-a/rayjobs/llm"
    until(lambda: not fleet.client.get(job)["spec"].get("suspend"))
