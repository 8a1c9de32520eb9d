"""What a scenario file says of teams: their nodes, their queues, and the Ray clusters that they ask for.

It decides defaults and which words there are. It refuses sizes that cannot be, in the file's own words.
"""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes set apart from the training nodes, `cordoned` of them by a person before anything began."""

    name: str
    nodes: int
    cordoned: int = 0

    def problems(self) -> list[str]:
        return [] if 0 <= self.cordoned <= self.nodes <= 1000 else ["nodes: up to 1000, cordoned: not more than those"]


@dataclass(frozen=True, slots=True)
class Queue:
    """A ClusterQueue of that many GPUs, with a LocalQueue of its name in the namespace of its team."""

    name: str
    gpus: int
    namespace: str
    strict: bool = False

    def problems(self) -> list[str]:
        return [] if 0 <= self.gpus <= 1_000_000 else ["gpus: 0 to 1000000"]


@dataclass(frozen=True, slots=True)
class Team:
    """One RayJob (or RayCluster), submitted `at` seconds after the start. Counts are workers.

    `least` and `most` are the bounds of its worker group (0: as many as `workers`); `autoscaler` with `idle` seconds.
    `gang`: its pods are placed by a pod group, else one by one. `bundles`: what its driver's placement group asks for
    (0: one for each worker). `oom_at`, `ends_after`: seconds after its driver's placement group was whole, 0 is never.
    `resubmits`: somebody starts the driver again after it failed, in the same Ray cluster.
    """

    name: str
    namespace: str
    workers: int
    pool: str = ""
    kind: str = "job"
    at: float = 0.0
    gpus: int = 8
    least: int = 0
    most: int = 0
    autoscaler: bool = False
    idle: int = 60
    version: str = "2.52.0"
    gang: bool = True
    queue: str = ""
    bundles: int = 0
    detached: bool = False
    elastic: int = 0  # its run may shrink to so many workers
    max_failures: int = 3
    tolerant: bool = True  # its head's store outlives the head
    shuts_down: bool = True
    ttl: int = 3600
    history: bool = True
    oom_at: float = 0.0
    ends_after: float = 0.0
    resubmits: bool = False

    def problems(self) -> list[str]:
        found = []
        if self.kind not in ("job", "cluster"):
            found.append(f"kind {self.kind!r}: job or cluster")
        if not 1 <= self.workers <= 1000 or not 0 <= self.gpus <= 8:
            found.append("workers: 1 to 1000, of 0 to 8 GPUs")
        if not self.least <= self.workers or (self.most and self.most < self.workers):
            found.append("least <= workers <= most")
        if self.queue and self.kind != "job":
            found.append("queue: of a job only")
        return found


@dataclass(frozen=True, slots=True)
class Teams:
    """`least_nodes`: a smaller fleet has none of this."""

    least_nodes: int = 0
    pools: tuple[Pool, ...] = ()
    queues: tuple[Queue, ...] = ()
    teams: tuple[Team, ...] = ()

    @property
    def nodes(self) -> int:
        return sum(pool.nodes for pool in self.pools)
