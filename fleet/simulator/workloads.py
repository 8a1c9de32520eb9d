"""Who runs on the fleet: DaemonSets, training gangs, inference deployments and small services.

It decides how many of each there are and replaces a pod that goes. It refuses to choose nodes for replacements: they
wait for the scheduler like everybody's pods. Only the first generation is placed here, as if it had run for days.
"""

import uuid
from dataclasses import dataclass, field
from random import Random
from typing import Any

from fleet.simulator import objects
from fleet.simulator.gangs.podgroups import of_gang
from fleet.simulator.host import GPUS, LABEL, SERVE, TRAIN, Host, identity
from fleet.simulator.scheduler import GROUP
from fleet.simulator.store import Event, Store
from fleet.simulator.timeline import Timeline, stamp

Json = dict[str, Any]
NAMESPACES = (
    "default",
    "kube-system",
    "kube-node-lease",
    "gpu-operator",
    "monitoring",
    "train",
    "inference",
    "services",
    "metal3",
)
PORTS = {"nvidia-dcgm-exporter": "dcgm", "node-exporter": "node"}
DAEMONS = (
    ("gpu-operator", "nvidia-dcgm-exporter", "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.0"),
    ("gpu-operator", "nvidia-device-plugin", "nvcr.io/nvidia/k8s-device-plugin:v0.17.4"),
    ("monitoring", "node-exporter", "quay.io/prometheus/node-exporter:v1.9.1"),
    ("monitoring", "fluent-bit", "cr.fluentbit.io/fluent/fluent-bit:4.0.8"),
)
GANG_SIZES = (2, 4, 8, 16, 4, 8, 12, 2, 16, 6)
SPARE = 48
SERVING = (("chat-70b", 4, 6), ("code-13b", 2, 8), ("embed", 1, 6))  # name, GPUs, replicas per 8 serving nodes
SERVICES = ("tokenizer", "feature-cache", "checkpoint-gateway")
CROWD_NODES = 256  # that share one Deployment of small pods


@dataclass(slots=True)
class Set:
    """A workload and the pods of it that count."""

    kind: str  # DaemonSet, Gang or Deployment
    namespace: str
    name: str
    image: str
    owner: Json
    labels: dict[str, str]
    replicas: int = 0
    gpus: int = 0
    pool: str = ""
    priority: int = 0
    grace: int = 30
    active: set[str] = field(default_factory=set)


class Workloads:
    def __init__(
        self, store: Store, timeline: Timeline, rng: Random, hosts: dict[str, Host], port: int, seed: int
    ) -> None:
        self.store = store
        self.pods = store["pods"]
        self.timeline = timeline
        self.rng = rng
        self.hosts = hosts
        self.port = port
        self.seed = seed
        self.sets: dict[tuple[str, str], Set] = {}
        self.gangs = 0  # how many there have been
        self.since = stamp(int(timeline.now()) - 86400 * 2)
        self.pods.listeners.append(self._pod_changed)

    def populate(self, pods_per_node: int = 0) -> None:
        """The first generation of everything; `pods_per_node` is the least that each node carries, of any kind."""
        for namespace in NAMESPACES:
            self._own("namespaces", {"name": namespace}, spec={}, status={"phase": "Active"})
        for namespace, name, image in DAEMONS:
            workload = self._daemons(namespace, name, image)
            for host in self.hosts.values():
                self._first(workload, self._name(workload, host.name), host)
        self._gangs([host for host in self.hosts.values() if host.pool == TRAIN])
        self._serving([host for host in self.hosts.values() if host.pool == SERVE])
        self._services([host for host in self.hosts.values() if host.pool == TRAIN])
        self._crowd(list(self.hosts.values()), pods_per_node)

    def _daemons(self, namespace: str, name: str, image: str) -> Set:
        record = self._own("daemonsets", {"name": name, "namespace": namespace}, spec={}, status={})
        owner = objects.owner("apps/v1", "DaemonSet", name, record)
        return self._set(Set("DaemonSet", namespace, name, image, owner, {"app": name}))

    def _gangs(self, hosts: list[Host]) -> None:
        """Fill the training nodes but for some spare ones; two more gangs wait for room."""
        room, number, used = len(hosts) - min(len(hosts) // 8, SPARE), 0, 0
        while room - used >= 2:
            size = min(GANG_SIZES[number % len(GANG_SIZES)], room - used)
            workload = self._gang(number, size)
            for index in range(size):
                self._first(workload, f"{workload.name}-worker-{index}", hosts[used + index])
            used, number = used + size, number + 1
        left = len(hosts) - used
        for size in (left + 2, left + 4) if hosts else ():
            self.submit(number, size)
            number += 1
        self.gangs = number

    def _gang(self, number: int, size: int) -> Set:
        name = f"llm-{number + 1:02d}"
        owner = objects.owner("kubeflow.org/v1", "PyTorchJob", name, str(identity(self.seed, name, "gang")))
        labels = {
            "training.kubeflow.org/job-name": name,
            "training.kubeflow.org/operator-name": "pytorchjob-controller",
            "training.kubeflow.org/replica-type": "worker",
            GROUP: name,
            "kueue.x-k8s.io/queue-name": ("research", "product")[number % 2],
        }
        priority = (1000, 500, 100)[number % 3]
        image = "registry.local/train/llm:2026.7"
        made = self.timeline.stamp() if self.gangs else self.since
        self.store["podgroups"].put(of_gang(self.seed, "train", name, size, made))
        return self._set(Set("Gang", "train", name, image, owner, labels, size, GPUS, TRAIN, priority, 60))

    def submit(self, number: int, size: int) -> None:
        """A new gang that waits until there is room for all of it."""
        workload = self._gang(number, size)
        for index in range(size):
            self._create(workload, f"{workload.name}-worker-{index}")

    def retire(self, workload: Set) -> None:
        """A gang has finished its work: nothing of it is replaced any more."""
        self.sets.pop((workload.namespace, workload.name), None)
        self.store["podgroups"].remove(f"{workload.namespace}/{workload.name}")

    def _serving(self, hosts: list[Host]) -> None:
        room = [GPUS] * len(hosts)
        for block in range(0, len(hosts), 8):
            share = min(8, len(hosts) - block)
            for name, gpus, replicas in SERVING:
                count = max(1, replicas * share // 8)
                workload = self._deployment("inference", f"{name}-{block // 8 + 1}", count, gpus, SERVE, 2000)
                for _ in range(count):
                    spot = max(range(block, block + share), key=lambda i: room[i])
                    room[spot] -= gpus
                    self._first(workload, self._name(workload), hosts[spot])

    def _services(self, hosts: list[Host]) -> None:
        """Small pods without GPUs, strewn over the training nodes."""
        for number, name in enumerate(SERVICES):
            blocks = max(1, len(hosts) // 256)
            for block in range(blocks):
                count = max(2, len(hosts) // blocks // 14)
                workload = self._deployment("services", f"{name}-{block + 1}", count, 0, TRAIN, 100)
                for index in range(count):
                    spot = (block * 256 + index * 14 + number * 5) % len(hosts)
                    self._first(workload, self._name(workload), hosts[spot])

    def _crowd(self, hosts: list[Host], pods_per_node: int) -> None:
        """Small pods on every node that carries fewer than wanted, one Deployment for each few hundred nodes."""
        for block in range(0, len(hosts), CROWD_NODES):
            part = hosts[block : block + CROWD_NODES]
            places = [host for host in part for _ in range(pods_per_node - len(self.pods.on_node(host.name)))]
            if places:
                name = f"preprocess-{block // CROWD_NODES + 1}"
                workload = self._deployment("services", name, len(places), 0, "", 100)
                for host in places:
                    self._first(workload, self._name(workload), host)

    def _deployment(self, namespace: str, name: str, replicas: int, gpus: int, pool: str, priority: int) -> Set:
        template = identity(self.seed, namespace, name).hex[:10]
        labels = {"app": name, "pod-template-hash": template}
        meta = {"name": name, "namespace": namespace}
        selector = {"matchLabels": {"app": name}}
        self._own("deployments", meta, spec={"replicas": replicas, "selector": selector}, status={"replicas": replicas})
        owned = meta | {"name": f"{name}-{template}", "labels": labels}
        uid = self._own("replicasets", owned, spec={"replicas": replicas, "selector": selector}, status={})
        self._own(
            "poddisruptionbudgets",
            meta | {"generation": 1},
            spec={"maxUnavailable": max(1, replicas // 12), "selector": selector},
            status={},
        )
        owner = objects.owner("apps/v1", "ReplicaSet", f"{name}-{template}", uid)
        image = f"registry.local/{namespace}/{name}:1.4"
        return self._set(Set("Deployment", namespace, name, image, owner, labels, replicas, gpus, pool, priority, 10))

    def _own(self, plural: str, meta: Json, **rest: Json) -> str:
        uid = str(identity(self.seed, plural, meta.get("namespace"), meta["name"]))
        self.store[plural].put({"metadata": meta | {"uid": uid, "creationTimestamp": self.since}} | rest)
        return uid

    def _set(self, workload: Set) -> Set:
        self.sets[(workload.namespace, workload.name)] = workload
        return workload

    def _name(self, workload: Set, node: str = "") -> str:
        """One that nobody has: of thousands with one prefix, some draw the same suffix."""
        middle = f"-{workload.labels['pod-template-hash']}" if workload.kind == "Deployment" else ""
        while True:
            suffix = "".join(self.rng.choices("bcdfghjklmnpqrstvwxz2456789", k=5))
            name = f"{workload.name}{middle}-{suffix}"
            if self.pods.get(f"{workload.namespace}/{name}") is None:
                return name

    def _pod(self, workload: Set, name: str, created: str) -> Json:
        labels = dict(workload.labels)
        if workload.kind == "Gang":
            labels["training.kubeflow.org/replica-index"] = name.rpartition("-")[2]
        return objects.pod(
            workload.namespace,
            name,
            str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            created,
            labels,
            workload.owner,
            workload.image,
            gpus=workload.gpus,
            priority=workload.priority,
            grace=workload.grace,
            restart="Never" if workload.kind == "Gang" else "Always",
            selector={LABEL + "pool": workload.pool} if workload.pool else None,
            daemon=workload.kind == "DaemonSet",
        )

    def _first(self, workload: Set, name: str, host: Host) -> None:
        obj = self._pod(workload, name, self.since)
        self._settle(obj, workload, host)
        obj["status"] = objects.running(obj, host, self.since)
        self.pods.put(obj)

    def _settle(self, obj: Json, workload: Set, host: Host) -> None:
        """Bind it, and say where to scrape it if it is an exporter."""
        obj["spec"]["nodeName"] = host.name
        if workload.name in PORTS:
            path = f"/nodes/{host.name}/{PORTS[workload.name]}/metrics"
            scrape = {"scrape": "true", "port": str(self.port), "path": path}
            obj["metadata"]["annotations"] = {f"prometheus.io/{key}": value for key, value in scrape.items()}

    def _create(self, workload: Set, name: str, node: str = "") -> None:
        retired = self.sets.get((workload.namespace, workload.name)) is not workload
        if retired or self.pods.get(f"{workload.namespace}/{name}") is not None:
            return
        obj = self._pod(workload, name, self.timeline.stamp())
        if node:
            self._settle(obj, workload, self.hosts[node])
        self.pods.put(obj)

    def _pod_changed(self, event: Event) -> None:
        pod = event.record
        name = pod.labels.get("app") or pod.labels.get("training.kubeflow.org/job-name")
        workload = self.sets.get((pod.namespace, name)) if name else None
        if workload is None:
            return
        gone = event.type == "DELETED"
        counts = not (gone or pod.deleting or pod.phase in ("Succeeded", "Failed"))
        if counts:
            workload.active.add(pod.key)
            return
        lost = pod.key in workload.active
        workload.active.discard(pod.key)
        if workload.kind == "Deployment" and lost:
            self.timeline.real_after(0.05, lambda: self._top_up(workload))
        elif workload.kind == "DaemonSet" and gone and pod.node in self.hosts:
            self.timeline.after(0.3, lambda: self._create(workload, self._name(workload), pod.node))
        elif workload.kind == "Gang" and gone:
            self.timeline.after(0.3, lambda: self._create(workload, pod.name))
        elif workload.kind == "Gang" and not pod.deleting:  # it failed: the operator starts a new one in its place
            self.timeline.after(0.5, lambda: self._discard(pod.key, pod.uid))

    def _discard(self, key: str, uid: str) -> None:
        pod = self.pods.get(key)
        if pod is not None and pod.uid == uid:
            self.pods.remove(key)

    def _top_up(self, workload: Set) -> None:
        while len(workload.active) < workload.replicas:
            self._create(workload, self._name(workload))
