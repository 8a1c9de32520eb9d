"""A cluster for the contract tests: the simulator, or a real API server, with fake nodes and pods in it.

Decides where the tests run: MUSTER_TEST_KUBECONFIG (and MUSTER_TEST_ACT_KUBECONFIG) name a real server, else a
simulator is started. Refuses to touch anything there that it did not create.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubernetes import config
from kubernetes.client import ApiClient, BatchV1Api, CoreV1Api, PolicyV1Api
from kubernetes.client.exceptions import ApiException

from fleet.adapters import kubernetes
from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.ports.cluster import PodSeen
from tests.patience import until

IMAGE = "registry.invalid/none:1"
Json = dict[str, Any]


@contextlib.contextmanager
def credentials(folder: Path) -> Iterator[tuple[str, str]]:
    """(reading, acting) kubeconfigs."""
    given = os.environ.get("MUSTER_TEST_KUBECONFIG")
    if given:
        yield given, os.environ.get("MUSTER_TEST_ACT_KUBECONFIG") or given
        return
    with simulated(folder) as files:
        yield str(files / "kubeconfig"), str(files / "act.kubeconfig")


@contextlib.contextmanager
def simulated(folder: Path, nodes: int = 4) -> Iterator[Path]:
    """A simulated fleet; gives the folder of its kubeconfigs, inventory and address."""
    command = [sys.executable, "-m", "fleet.simulator", "--nodes", str(nodes), "--scenario", "calm", "--port", "0"]
    files = folder / "simulator"
    wanted = [files / name for name in ("kubeconfig", "act.kubeconfig", "inventory.csv", "url")]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([*command, "--var", str(folder)], stdout=log, stderr=log) as process,
    ):
        try:
            until(lambda: process.poll() is not None or all(path.exists() for path in wanted))
            assert process.poll() is None, (folder / "log").read_text()
            yield files
        finally:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()


def untyped(*apis: Any) -> tuple[Any, ...]:
    """The fixtures send plain bodies where the client's hints want models."""
    return apis


class World:
    """Makes fake nodes and pods as plain API objects, and takes away what it made."""

    def __init__(self, reading: str, acting: str) -> None:
        self.mark = f"muster-contract-{uuid.uuid4().hex[:8]}"
        self.reading, self.acting = reading, acting
        self.reader: KubernetesReader = kubernetes.reader(reading, node_selector=f"muster.dev/contract={self.mark}")
        self.everything: KubernetesReader = kubernetes.reader(reading)
        self.actor: KubernetesActor = kubernetes.actor(acting, lease_namespace=self.mark)
        client: ApiClient = config.new_client_from_config(acting, persist_config=False)
        self.core, self.policy, self.batch = untyped(CoreV1Api(client), PolicyV1Api(client), BatchV1Api(client))
        self.nodes: list[str] = []
        self.core.create_namespace({"metadata": {"name": self.mark}})
        with contextlib.suppress(ApiException):  # a bare API server has no controller that makes it
            self.core.create_namespaced_service_account(self.mark, {"metadata": {"name": "default"}})

    def node(self, suffix: str, **status: Any) -> str:
        name = f"{self.mark}-{suffix}"
        labels = {"muster.dev/contract": self.mark, "kubernetes.io/hostname": name}
        body = {"metadata": {"name": name, "labels": labels}, "spec": {"providerID": f"fake://{name}"}}
        self.core.create_node(body)
        self.nodes.append(name)
        filled: Json = {
            "capacity": {"nvidia.com/gpu": "8", "cpu": "8", "memory": "64Gi", "pods": "110"},
            "allocatable": {"nvidia.com/gpu": "7", "cpu": "8", "memory": "64Gi", "pods": "110"},
            "addresses": [{"type": "InternalIP", "address": "192.0.2.7"}],
            **status,
        }
        self.core.patch_node_status(name, {"status": filled})
        return name

    def pod(self, name: str, node: str, gpus: int = 0, **metadata: Any) -> PodSeen:
        """A Running and Ready pod bound to `node`, as its kubelet would tell."""
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else {}
        container = {"name": "main", "image": IMAGE, "resources": {"limits": limits}}
        spec = {
            "nodeName": node,
            "containers": [container],
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
        }
        self.core.create_namespaced_pod(self.mark, {"metadata": {"name": name, **metadata}, "spec": spec})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self.core.patch_namespaced_pod_status(name, self.mark, {"status": {"phase": "Running", "conditions": [ready]}})
        return self.seen(name, node)

    def seen(self, name: str, node: str) -> PodSeen:
        return next(pod for pod in self.everything.pods_on(node) if (pod.namespace, pod.name) == (self.mark, name))

    def budget(self, name: str, labels: dict[str, str]) -> None:
        """A budget that allows nothing. Its status is written here for servers without a controller for it."""
        spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
        self.policy.create_namespaced_pod_disruption_budget(self.mark, {"metadata": {"name": name}, "spec": spec})
        status = {
            "disruptionsAllowed": 0,
            "currentHealthy": 1,
            "desiredHealthy": 1,
            "expectedPods": 1,
            "observedGeneration": 1,
        }
        with contextlib.suppress(ApiException):
            self.policy.patch_namespaced_pod_disruption_budget_status(name, self.mark, {"status": status})

    def clear(self) -> None:
        with contextlib.suppress(ApiException):
            self.policy.delete_collection_namespaced_pod_disruption_budget(self.mark)
        with contextlib.suppress(ApiException):
            self.batch.delete_collection_namespaced_job(self.mark, propagation_policy="Background")
        with contextlib.suppress(ApiException):
            self.core.delete_collection_namespaced_pod(self.mark, grace_period_seconds=0)
        while self.nodes:
            with contextlib.suppress(ApiException):
                self.core.delete_node(self.nodes.pop())

    def end(self) -> None:
        self.clear()
        with contextlib.suppress(ApiException):
            self.core.delete_namespace(self.mark)
