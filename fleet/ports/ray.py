"""What Ray and its operator say of one Ray cluster, beyond what every gang has.

Decides the facts that the conditions of a Ray gang are judged by. Refuses to judge them. Times are UTC; counts of a
worker group are replicas (`hosts` pods each); None is what the object or the dashboard does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol

NO_LIMIT = 2_147_483_647
"""The operator's default of maxReplicas: the group has no bound of its own."""


@dataclass(frozen=True, slots=True)
class RayGroup:
    """One worker group (or the head, by name `head`). `gpus_limit` is what the pod's containers may use, summed;
    `gpus_declared` what Ray is told it has; `spot`: its pods may land on capacity that is taken back."""

    name: str
    replicas: int
    minimum: int
    maximum: int
    hosts: int = 1
    gpus_limit: int = 0
    gpus_declared: float | None = None
    to_delete: int = 0
    suspended: bool = False
    spot: bool = False
    idle_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class RayRetention:
    """What happens to a RayJob's cluster and its logs at its end."""

    shuts_down: bool
    ttl_seconds: int
    deletion_rules: bool
    history: bool  # a history server's collector keeps events and logs


@dataclass(frozen=True, slots=True)
class RayFacts:
    """Of a RayCluster, RayJob or RayService object. `generation` rises with each change of the spec."""

    kind: str
    cluster: str = ""  # the RayCluster that a RayJob or RayService runs on now
    version: str = ""
    generation: int = 0
    autoscaling: bool = False
    idle_seconds: int = 60
    fault_tolerant: bool = False
    recovery_seconds: int = 0  # how long workers outlive their head: 600 by default with fault tolerance, else 0
    head_ready: bool | None = None
    head_changed_at: datetime | None = None
    desired_workers: int | None = None
    groups: tuple[RayGroup, ...] = ()
    gang_label: bool = False
    backoff_limit: int | None = None
    retention: RayRetention | None = None
    address: str = ""  # of the dashboard, for asking it
    model_gpus: float | None = None  # the fewest GPUs that hold its model, where its owner told


PlacementState = Literal["PENDING", "PREPARED", "CREATED", "REMOVED", "RESCHEDULING", "UNKNOWN"]


@dataclass(frozen=True, slots=True)
class PlacementGroup:
    id: str
    name: str
    state: PlacementState
    scheduling: str  # QUEUED, NO_RESOURCES, INFEASIBLE, ... as Ray says it
    detached: bool
    job: str  # the job that made it
    strategy: str
    bundles: tuple[tuple[tuple[str, float], ...], ...]  # resources of each bundle, sorted
    nodes: tuple[str, ...] = ()  # Ray node ids of the placed bundles

    @property
    def gpus(self) -> float:
        return sum(amount for bundle in self.bundles for name, amount in bundle if name == "GPU")


@dataclass(frozen=True, slots=True)
class RayNode:
    id: str
    name: str  # hostname; in Kubernetes the pod's name
    ip: str
    alive: bool
    head: bool
    gpus_total: float
    gpus_used: float | None
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class RayJobSeen:
    id: str  # job id ("01000000"), by which placement groups name their maker
    submission: str
    status: str  # PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED
    message: str
    started_at: datetime | None
    ended_at: datetime | None

    @property
    def over(self) -> bool:
        return self.status in ("SUCCEEDED", "FAILED", "STOPPED")


@dataclass(frozen=True, slots=True)
class TrainRun:
    """One run of Ray Train (v2). `workers` is (least, most): equal when it is not elastic."""

    id: str
    name: str
    job: str
    status: str
    workers: tuple[int, int]
    gpus_per_worker: float
    max_failures: int | None
    attempts: int


@dataclass(frozen=True, slots=True)
class RayReading:
    """One look at a dashboard. `unread` names the endpoints that did not answer: their parts are empty, not true."""

    at: datetime
    version: str
    healthy: bool | None
    placement_groups: tuple[PlacementGroup, ...] = ()
    nodes: tuple[RayNode, ...] = ()
    jobs: tuple[RayJobSeen, ...] = ()
    runs: tuple[TrainRun, ...] = ()
    live_actor_groups: frozenset[str] = frozenset()  # ids of placement groups that a live actor uses
    largest_ask: float | None = None  # most GPUs that one waiting task or bundle asks for
    gpus_total: float | None = None
    gpus_used: float | None = None
    gpus_reserved_unused: float | None = None  # reserved by placement groups and used by nobody
    draining: frozenset[str] = frozenset()  # Ray node ids
    unread: tuple[str, ...] = ()


class RayDashboard(Protocol):
    """The dashboard of one Ray cluster. Raises `fleet.ports.errors`; never writes."""

    def read(self) -> RayReading: ...

    def log_tail(self, submission: str, lines: int = 1000) -> str:
        """The end of a job's driver log. NotFound when the job is not known."""
        ...


class RayDrains(Protocol):
    """Tells a Ray cluster that nodes of it are about to go. One write each, best effort."""

    def drain(self, namespace: str, cluster: str, ips: Sequence[str], why: str, seconds: int) -> dict[str, str]:
        """By the pods' addresses: "" where Ray has taken it, else why not. Repeating it only moves the deadline.

        `seconds`: after which the pods end. Raises `fleet.ports.errors`.
        """
        ...

    def check(self) -> list[str]:
        """What it needs and lacks, in words."""
        ...
