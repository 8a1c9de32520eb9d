"""The cluster as the watches tell it, in memory, and what of it is not written yet.

Decides what of a pod is worth remembering: whether it counts as work on its node, its gang, and the exporter it may be.
A full list settles what is gone. Refuses to hold whole pods: there are a hundred thousand of them. Fed by the watch
threads, read by the writer and the scraper; one short lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from fleet.ports.cluster import Change, NodeSeen, PodSeen

SCRAPE, PORT, PATH, SCHEME = (f"prometheus.io/{key}" for key in ("scrape", "port", "path", "scheme"))
JOBS = {"dcgm": "dcgm", "node-exporter": "node"}


@dataclass(frozen=True, slots=True)
class Exporter:
    """One endpoint to scrape, known by its pod. `job` tells exporters of one node apart."""

    node: str
    job: str
    url: str
    pod: str = ""  # its name, which an exporter that was told nothing better calls its host


@dataclass(frozen=True, slots=True)
class _Pod:
    uid: str
    node: str
    works: bool
    gang: str
    exporter: Exporter | None
    role: str = ""


@dataclass(slots=True)
class Pending:
    """What the writer has to write. `names` is set after a full list of nodes."""

    nodes: list[NodeSeen] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    names: frozenset[str] | None = None
    loads: dict[str, tuple[int, str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.nodes or self.deleted or self.names is not None or self.loads)


class World:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.nodes: dict[str, NodeSeen] = {}
        self._pods: dict[str, _Pod] = {}
        self._on: dict[str, set[str]] = {}
        self._dirty: set[str] = set()
        self._deleted: set[str] = set()
        self._loads: set[str] = set()
        self._names: frozenset[str] | None = None
        self.nodes_synced = threading.Event()
        self.pods_synced = threading.Event()
        self.exporters_version = 0

    def node_change(self, change: Change) -> None:
        with self._lock:
            if change.kind == "synced":
                self._names = change.names
                for name in [name for name in self.nodes if name not in change.names]:
                    del self.nodes[name]
                self._dirty &= self.nodes.keys()
                self.nodes_synced.set()
            elif isinstance(change.item, NodeSeen):
                name = change.item.name
                if change.kind == "deleted":
                    self.nodes.pop(name, None)
                    self._dirty.discard(name)
                    self._deleted.add(name)
                elif self.nodes.get(name) != change.item:
                    self.nodes[name] = change.item
                    self._dirty.add(name)
                    self._deleted.discard(name)

    def pod_change(self, change: Change) -> None:
        with self._lock:
            if change.kind == "synced":
                for key in [key for key in self._pods if key not in change.names]:
                    self._drop(key)
                self.pods_synced.set()
            elif isinstance(change.item, PodSeen):
                pod = change.item
                if change.kind == "deleted" or pod.finished or not pod.node:
                    self._drop(pod.key)
                else:
                    self._put(pod)

    def _put(self, pod: PodSeen) -> None:
        new = _Pod(pod.uid, pod.node, pod.kind in ("workload", "bare"), pod.gang, exporter_of(pod), pod.role)
        old = self._pods.get(pod.key)
        if old == new:
            return
        if old is not None and old.node != new.node:
            self._drop(pod.key)
        self._pods[pod.key] = new
        self._on.setdefault(pod.node, set()).add(pod.key)
        self._loads.add(pod.node)
        if (old.exporter if old else None) != new.exporter:
            self.exporters_version += 1

    def _drop(self, key: str) -> None:
        old = self._pods.pop(key, None)
        if old is None:
            return
        here = self._on.get(old.node, set())
        here.discard(key)
        if not here:
            self._on.pop(old.node, None)
        self._loads.add(old.node)
        if old.exporter:
            self.exporters_version += 1

    def take(self) -> Pending:
        """Everything that changed since the last time; loads only of nodes that are written with it or were before.

        `give_back` returns what could not be written.
        """
        with self._lock:
            told = self._loads & self.nodes.keys() if self.pods_synced.is_set() else set()
            pending = Pending(
                nodes=[self.nodes[name] for name in sorted(self._dirty) if name in self.nodes],
                deleted=sorted(self._deleted),
                names=self._names,
                loads={node: self._load(node) for node in told},
            )
            self._loads -= told  # a pod may be told before its node is
            self._dirty, self._deleted, self._names = set(), set(), None
            return pending

    def give_back(self, pending: Pending) -> None:
        with self._lock:
            self._dirty |= {seen.name for seen in pending.nodes} & self.nodes.keys()
            self._deleted |= set(pending.deleted) - self.nodes.keys()
            self._loads |= pending.loads.keys()
            if self._names is None:
                self._names = pending.names

    def touch_all(self) -> None:
        """The way nodes are read has changed (selector, label keys): look at every one again."""
        with self._lock:
            self._dirty = set(self.nodes)

    def loads(self) -> dict[str, tuple[int, str]]:
        with self._lock:
            return {node: self._load(node) for node in self.nodes}

    def _load(self, node: str) -> tuple[int, str]:
        pods = [self._pods[key] for key in self._on.get(node, ())]
        gangs = Counter(pod.gang for pod in pods if pod.works and pod.gang)
        return sum(pod.works for pod in pods), most(gangs)

    def roles(self) -> dict[str, str]:
        """The role that most pods of the node's gang play there; nodes without one are left out."""
        with self._lock:
            pods = list(self._pods.values())
        gangs: dict[str, Counter[str]] = {}
        parts: dict[tuple[str, str], Counter[str]] = {}
        for pod in pods:
            if pod.works and pod.gang:
                gangs.setdefault(pod.node, Counter())[pod.gang] += 1
                if pod.role:
                    parts.setdefault((pod.node, pod.gang), Counter())[pod.role] += 1
        found = {}
        for node, counted in gangs.items():
            played = parts.get((node, most(counted)))
            if played:
                found[node] = most(played)
        return found

    def exporters(self) -> dict[tuple[str, str], Exporter]:
        """(node, job) -> where to scrape it."""
        with self._lock:
            found = (pod.exporter for pod in self._pods.values() if pod.exporter)
            return {(e.node, e.job): e for e in sorted(found, key=lambda e: e.url)}

    def counts(self) -> tuple[int, int]:
        with self._lock:
            return len(self.nodes), len(self._pods)


def most(counted: Counter[str]) -> str:
    """The most frequent word; of two equal ones always the same."""
    return max(counted, key=lambda word: (counted[word], word), default="")


def exporter_of(pod: PodSeen) -> Exporter | None:
    """A pod that says by the usual annotations that it may be scraped, on a node and with an address."""
    notes: Mapping[str, str] = pod.annotations
    if notes.get(SCRAPE) != "true" or not pod.pod_ip or not pod.node:
        return None
    port = notes.get(PORT) or (str(pod.ports[0]) if pod.ports else "")
    if not port.isdigit():
        return None
    host = f"[{pod.pod_ip}]" if ":" in pod.pod_ip else pod.pod_ip
    path = "/" + notes.get(PATH, "/metrics").lstrip("/")
    owner = pod.owner.partition("/")[2] or pod.name
    job = next((job for word, job in JOBS.items() if word in owner), owner)
    return Exporter(pod.node, job, f"{notes.get(SCHEME, 'http')}://{host}:{port}{path}", pod.name)
