"""What the domain asks of a scheduler's cluster, and the facts it gets back.

Decides the normal form of nodes and pods and the verbs of a hold and a drain. Refuses policy: an adapter never chooses
whom to hold or evict, and never shortens a grace period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

from fleet.ports.gangs import Member, Spoken


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """One node as the API server tells it. `ready` is None when the condition is Unknown or absent."""

    name: str
    uid: str
    resource_version: str
    unschedulable: bool
    ready: bool | None
    ready_reason: str
    ready_since: datetime | None
    heartbeat_at: datetime | None  # the newest of Ready.lastHeartbeatTime and (where joined) the node lease
    boot_id: str
    machine_id: str
    system_uuid: str
    provider_id: str
    kernel: str
    os_image: str
    kubelet: str
    addresses: tuple[tuple[str, str], ...]  # (type, address), e.g. ("InternalIP", "10.0.1.7")
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]  # (key, value, effect)
    conditions: Mapping[str, tuple[str, str, str]]  # type -> (status, reason, message)
    gpu_capacity: int | None  # None: the resource is not advertised
    gpu_allocatable: int | None
    created_at: datetime | None
    deleting: bool = False
    allocatable: tuple[tuple[str, int], ...] = ()  # every device resource it advertises (GPUs, MIG profiles)
    cpu_millis: int | None = None  # allocatable; None: it does not tell
    memory_mib: int | None = None


PodKind = Literal["workload", "daemonset", "mirror", "bare"]


@dataclass(frozen=True, slots=True)
class PodSeen:
    """One pod of a node. `gang` is the best-known gang name (`namespace/name`) or an empty string, `role` the part it
    plays there (worker, head, launcher, ...) where a label tells. `ends_at` is when its own active deadline ends it;
    `disruption` the reason of its condition DisruptionTarget, which names who ends it (since Kubernetes 1.26);
    `claims`: it asks for devices by resource claims, so that `gpus` may say nothing."""

    namespace: str
    name: str
    uid: str
    node: str
    phase: str  # Pending, Running, Succeeded, Failed, Unknown
    ready: bool
    kind: PodKind
    owner: str  # "Kind/name" of the controlling owner, "" if none
    gang: str
    gpus: int
    grace_seconds: int
    deleting_since: datetime | None
    finalizers: tuple[str, ...]
    local_data: bool  # uses emptyDir
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    pod_ip: str = ""
    ports: tuple[int, ...] = ()
    resource_version: str = ""
    role: str = ""
    started_at: datetime | None = None
    ends_at: datetime | None = None
    disruption: str = ""
    claims: bool = False
    member: Member | None = None  # what gangs are counted by
    slurm: tuple[str, ...] = ()  # the states of the Slurm node that it is (Slinky): Drain, Idle, Allocated, ...

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


ChangeKind = Literal["added", "modified", "deleted", "bookmark", "synced"]


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a list-then-watch stream.

    `synced` comes once after each full list (first sync and every relist) and carries `names`: everything that exists,
    so that what is missing from it was deleted meanwhile. `item` is None for `synced` and `bookmark`.
    """

    kind: ChangeKind
    item: NodeSeen | PodSeen | Spoken | None = None
    resource_version: str = ""
    names: frozenset[str] = frozenset()
    relist: bool = False


@dataclass(frozen=True, slots=True)
class WatchState:
    """Health of one stream for pages: "watching since", or the sentence that says why not."""

    resource: str
    connected: bool
    since: datetime
    text: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class HoldRequest:
    """Keep `node` from new work. `value` is the annotation's value `<incident>/<op_id>`.

    `resource_version` is the precondition: the patch fails with Conflict when the node changed since it was read.
    `why` is one line for people, where the scheduler shows such a line (Slurm's reason).
    """

    node: str
    value: str
    resource_version: str
    set_unschedulable: bool = True
    why: str = ""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """One Job pinned to a node (spec.nodeName: it must run although the node is cordoned).

    `labels["muster.dev/purpose"]` names its container. `privileged` reaches the node's own devices.
    """

    name: str
    namespace: str
    node: str
    image: str
    command: tuple[str, ...]
    deadline_seconds: int
    labels: Mapping[str, str] = field(default_factory=dict)
    gpus: int = 0
    privileged: bool = False
    runtime_class: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[str, ...] = ()  # paths of the node, seen at the same place; `:ro` at the end: not written
    priority_class: str = ""


JobPhase = Literal["missing", "pending", "running", "succeeded", "failed"]


@dataclass(frozen=True, slots=True)
class JobSeen:
    phase: JobPhase
    text: str = ""


@dataclass(frozen=True, slots=True)
class RequestSeen:
    """Another controller's own object that asks for work on a node: a reboot, a maintenance, a remediation, a lease.

    `state` is its phase, or the reason of its condition Ready; `finished`: it says itself that it is over.
    """

    group: str
    kind: str
    name: str
    state: str
    finished: bool
    since: datetime | None


@dataclass(frozen=True, slots=True)
class EventSeen:
    namespace: str
    kind: str
    name: str
    reason: str
    message: str
    type: str
    at: datetime | None


JOB_DEADLINE = "DeadlineExceeded"
"""How `JobSeen.text` begins for a Job that was ended at its deadline: Kubernetes' own word."""
HOLD_ANNOTATION = "muster.dev/hold"
SLURM_JOB = "SlurmJob/"
"""How `PodSeen.owner` begins for a rank of a Slurm job: evicting one requeues the job on all of its nodes."""
SLINKY_REASON, SLINKY_OURS = "nodeset.slinky.slurm.net/node-cordon-reason", "Muster hold "
"""Why a Kubernetes node is cordoned, which Slinky's operator tells Slurm; and how a reason of ours begins."""
SLURM_BUSY = frozenset({"Allocated", "Mixed", "Completing"})
"""States of `PodSeen.slurm` in which work is on the node: drained it is only without any of them."""
SLURM_OUT, SLURM_WORK = "muster.dev/slurm-out", "muster.dev/slurm-work"
"""What a reader of Slurm's own nodes tells beside: who else keeps the node from work and why; that it is rebooted."""
OUT_OF_SERVICE = ("node.kubernetes.io/out-of-service", "nodeshutdown", "NoExecute")
"""Key, value, effect of Kubernetes' non-graceful node shutdown (stable since 1.28)."""

PURPOSE_LABEL = "muster.dev/purpose"
GPU_SERVICES = {
    "nvidia.com/gpu.deploy.device-plugin": "nvidia-device-plugin-daemonset",
    "nvidia.com/gpu.deploy.gpu-feature-discovery": "gpu-feature-discovery",
    "nvidia.com/gpu.deploy.dcgm": "nvidia-dcgm",
    "nvidia.com/gpu.deploy.dcgm-exporter": "nvidia-dcgm-exporter",
    "nvidia.com/gpu.deploy.mig-manager": "nvidia-mig-manager",
}
"""Node label by which the GPU Operator places a DaemonSet that keeps GPUs open -> label `app` of its pods."""
GPU_SERVICE_ON, GPU_SERVICE_PAUSED = "true", "paused-by-muster"
"""Values of those labels: where the operator runs the DaemonSet, and ours, by which we know what to turn on again."""


class ClusterReader(Protocol):
    """Reads with the reading credential. Never writes. Raises `fleet.ports.errors`."""

    def check(self) -> list[str]:
        """Reach the server and prove each needed read right; sentences of what is missing, [] if all is well."""
        ...

    def server_version(self) -> str: ...

    def nodes(self) -> list[NodeSeen]: ...

    def node(self, name: str) -> NodeSeen:
        """Fresh from the server (no cache). NotFound if it does not exist."""
        ...

    def pods_on(self, node: str) -> list[PodSeen]:
        """ALL pods of the node, every namespace, fresh from the server."""
        ...

    def requests_on(self, node: str) -> list[RequestSeen]:
        """What other controllers ask to be done to the node by objects of their own; kinds not installed are none."""
        ...

    def unscheduled_pods(self) -> list[PodSeen]:
        """Pods that wait for a node, every namespace, fresh from the server."""
        ...

    def events_of(self, kind: str, name: str, namespace: str = "") -> list[EventSeen]: ...

    def watch_nodes(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        """List pages, then watch for ever: bookmarks, 410 relist, reconnect with jitter. Ends when stop() is true."""
        ...

    def watch_pods(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]: ...


class ClusterActor(Protocol):
    """Acts with the acting credential. Each call is one write. Raises `fleet.ports.errors`."""

    def hold(self, request: HoldRequest) -> NodeSeen:
        """Set unschedulable and the hold annotation in ONE patch with the resourceVersion as precondition."""
        ...

    def release(self, node: str, value: str, resource_version: str, uncordon: bool) -> NodeSeen:
        """Remove the hold annotation if it still has `value`, and uncordon in the same patch when asked to."""
        ...

    def fence(self, node: str, on: bool) -> NodeSeen:
        """Set or remove the taint OUT_OF_SERVICE, which lets a lost host's pods and volumes go. Nothing else changes.

        Idempotent. Only for a node whose power is proven off (on), or that is back (off).
        """
        ...

    def pause_gpu_services(self, node: str, on: bool) -> NodeSeen:
        """Take the GPU Operator's own pods off the node by its labels GPU_SERVICES (on), or let them come back.

        Idempotent: only labels that say GPU_SERVICE_ON are paused, only those of ours are turned on again.
        """
        ...

    def evict(self, pod: PodSeen) -> None:
        """policy/v1 eviction with the pod's UID as precondition. EvictionBlocked on 429, NotFound if it is gone."""
        ...

    def delete(self, pod: PodSeen) -> None:
        """Delete with the pod's UID as precondition and its own grace period, passing by every budget.

        Only what a person asked for and another one approved. NotFound if it is gone.
        """
        ...

    def create_job(self, request: JobRequest) -> None:
        """Create; an existing Job of the same name is success (idempotent by name)."""
        ...

    def job(self, namespace: str, name: str) -> JobSeen: ...

    def job_log(self, namespace: str, name: str) -> str | None:
        """What the Job's newest pod printed, its end when it is long; None when pod or log is gone."""
        ...

    def delete_job(self, namespace: str, name: str) -> None: ...

    def clear_tests(self, node: str) -> None:
        """Take away what was set up on the node for its Jobs beside them, so that nothing but the hold is left.

        Idempotent. TemporaryError while one of them is still ending.
        """
        ...

    def claim_lease(self, installation: str, ttl_seconds: int) -> bool:
        """Take or renew the Lease `muster` that says which installation may act here. False: another one holds it."""
        ...

    def check(self) -> list[str]:
        """Each acting right proved by SelfSubjectAccessReview; sentences that name verb and resource of what lacks."""
        ...


RawObject = dict[str, Any]
PodList = Sequence[PodSeen]
