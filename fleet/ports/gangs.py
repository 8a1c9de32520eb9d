"""What gang schedulers and the controllers behind them say, in one form for all of them.

Decides the words: an object that names a gang, a member, a queue and its quotas, and why something waits. Refuses to
join objects and members into gangs and to judge: `fleet.gangs` does both. Every reader keeps the scheduler's own text
beside what it made of it, and says None where an object does not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal, Protocol, cast

from fleet.ports.ray import RayFacts

if TYPE_CHECKING:
    from fleet.ports.cluster import Change, WatchState

System = Literal[
    "ray", "coscheduling", "volcano", "kai", "kueue", "yunikorn", "native", "jobset", "lws", "trainjob", "kubeflow",
    "slurm", "slinky", "pods",
]  # fmt: skip

ReasonCode = Literal[
    "SUSPENDED", "QUEUE_STOPPED", "QUOTA", "EXCEEDS_MAX", "NODE_UNHEALTHY", "TOPOLOGY", "FRAGMENTATION", "CAPACITY",
    "PRIORITY_BEHIND", "ADMISSION_CHECK", "BIND_FAILED", "IMAGE_OR_INIT", "UNKNOWN",
]  # fmt: skip
"""Why a gang waits. In this order: of several that hold, the first is told."""

SENT = "Workload clusterName"  # where it stands that a gang was sent to another cluster: nobody suspended it


@dataclass(frozen=True, slots=True)
class Ref:
    """One object of one system. Slurm has no namespaces: there it is the partition."""

    system: System
    kind: str
    namespace: str
    name: str
    uid: str = ""

    @property
    def key(self) -> str:
        """Unique in a cluster and stable over reads; members name their gang by it."""
        return key_of(self.system, self.kind, self.namespace, self.name)


def key_of(system: System, kind: str, namespace: str, name: str) -> str:
    return f"{system}/{kind}/{namespace}/{name}"


def ref_of(key: str) -> Ref:
    """The reference that a key came from, without its UID."""
    system, kind, namespace, name = key.split("/", 3)
    return Ref(cast("System", system), kind, namespace, name)


@dataclass(frozen=True, slots=True)
class Said:
    """One statement of a scheduler: what it means for us, its own text, since when, and where it stands.

    `source` names the place in the system's own terms ("Workload condition QuotaReserved: WaitingForQuota").
    """

    code: ReasonCode
    text: str
    at: datetime | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """One expression of a required node affinity. Operators as Kubernetes names them: In, NotIn, Exists, ..."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Toleration:
    key: str  # "" with Exists tolerates everything
    operator: str  # Equal, Exists
    value: str
    effect: str  # "" every effect


@dataclass(frozen=True, slots=True)
class Need:
    """What one member needs of a node. Readers hand out one object for equal needs: members are many, needs are few.

    `gpus` counts whole devices of `resource` (MIG profiles are resources of their own); `any_of` are the terms of the
    required node affinity, of which one must hold whole. `whole_node`: nothing else may share the node (Slurm's
    exclusive jobs). `claims`: claims of devices (DRA); what they hold, and of which kind, the pod does not tell.
    """

    gpus: int = 0
    cpu_millis: int = 0
    memory_mib: int = 0
    resource: str = "nvidia.com/gpu"
    selector: tuple[tuple[str, str], ...] = ()
    any_of: tuple[tuple[Match, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    whole_node: bool = False
    claims: int = 0


MemberState = Literal["gated", "pending", "placed", "running", "ready", "ended"]
"""Held back by a gate; waiting for a node; bound and not started; started; says that it is ready; over."""


@dataclass(frozen=True, slots=True)
class Member:
    """One pod or rank. `links` are the keys of the objects it names, the most specific first; `node` "" is nowhere.

    `total` is the size of its group where only the pods know it (Kueue's plain pods, YuniKorn's task groups).
    """

    key: str  # namespace/name of the pod, job/rank elsewhere
    uid: str
    node: str
    state: MemberState
    need: Need
    links: tuple[str, ...] = ()
    owner: str = ""  # "Kind/name" of the controlling owner
    owner_uid: str = ""
    role: str = ""
    queue: str = ""
    priority: int = 0
    created_at: datetime | None = None
    waits: Said | None = None  # what the scheduler said of this member last
    stuck: str = ""  # why it is bound and does not start: ImagePullBackOff, CreateContainerError, Init:...
    ending: bool = False  # being deleted; it holds its GPUs until it is gone
    total: int | None = None
    alone: bool = False  # admitted by itself, though others have the same maker (Kueue's single pods)
    done: bool = False  # it ended, and well, and nobody takes it away
    init: str = ""  # the init container that runs before it starts
    placeholder: bool = False  # holds room for a member that has not come
    sick_device: str = ""  # what the kubelet says of a device it gave to this pod (KEP-4680), "" when nothing


@dataclass(frozen=True, slots=True)
class Topology:
    """Members must (or should) share one domain: `level` is the label key or the tier's name as the system tells it."""

    level: str
    required: bool


def tier_level(tier: str | int) -> str:
    """The level of a tier in a tree of domains, by its number or its name; no label of a node is called so."""
    return f"tier {tier}"


@dataclass(frozen=True, slots=True)
class Part:
    """Members of one role, counted in members. `minimum`, `maximum`: None where the object does not bound them."""

    role: str
    wanted: int
    minimum: int | None = None
    maximum: int | None = None
    need: Need | None = None
    topology: Topology | None = None


Guarantee = Literal["whole", "partial", "none", "lost", "unknown"]
"""All members or none; only some of them; nothing of the kind; it was there and has ended; the object does not say."""


@dataclass(frozen=True, slots=True)
class GangObject:
    """One object that speaks of a gang.

    `places`: a scheduler places by it (PodGroup, Workload, a Slurm job); the others make pods (RayCluster, JobSet).
    Several objects may speak of one gang: `owners` (UIDs of its owner references) join them. `waits_since` is when the
    present wait began where the object tells it: an eviction or a requeue begins a new one.
    """

    ref: Ref
    places: bool
    owners: tuple[str, ...] = ()
    owner: str = ""  # the person or team, where the object tells
    queue: str = ""
    priority: int = 0
    created_at: datetime | None = None
    waits_since: datetime | None = None
    started_at: datetime | None = None  # placed as a whole
    ended_at: datetime | None = None
    finished: bool = False
    suspended: bool = False
    admitted: bool | None = None  # its queue lets it in (quota reserved, Inqueue); None: no such notion
    phase: str = ""  # the system's own word
    wanted: int | None = None
    minimum: int | None = None
    parts: tuple[Part, ...] = ()
    said: tuple[Said, ...] = ()
    unhealthy_nodes: tuple[str, ...] = ()
    done: int = 0  # members that ended well and are not made again; `wanted` and `parts` are without them
    later: int = 0  # members whose turn comes when others have ended; `wanted` and `parts` are without them
    by_topology: bool = False  # Kueue chose its nodes by name: it replaces one that is lost, and not two
    planned_nodes: tuple[str, ...] = ()  # where its scheduler means to put it (Slurm's scheduled_nodes)
    position: int | None = None  # in its queue, from 0
    ahead: str = ""  # key of the gang that this one waits behind, where the system tells
    guarantee: Guarantee = "unknown"
    gpus_idle: int | None = None  # held for nobody's work by the system's own word (placeholders, a stale group)
    stale: Said | None = None  # the system itself says that the object outlived its use
    ray: RayFacts | None = None
    links: tuple[str, ...] = ()  # keys of other objects it names: a Kueue Workload's job, a RayJob's cluster


@dataclass(frozen=True, slots=True)
class Quota:
    """One resource of one flavor in a queue, in the resource's own unit (GPUs in devices). None: no such bound."""

    flavor: str
    resource: str
    guaranteed: float | None = None
    used: float = 0.0
    reserved: float | None = None
    borrowed: float = 0.0
    ceiling: float | None = None
    wanted: float | None = None  # asked for by what waits


@dataclass(frozen=True, slots=True)
class QueueObject:
    """One queue (ClusterQueue, Volcano, KAI or YuniKorn queue, Slurm partition). `share` is the system's own number of
    how far it is above its due (`share_text` says which), None where it has none."""

    ref: Ref
    parent: str = ""  # cohort, department or parent queue
    stopped: bool = False
    quotas: tuple[Quota, ...] = ()
    share: float | None = None
    share_text: str = ""
    weight: float | None = None
    head_blocks: bool = False  # strict order: what cannot start stops all behind it
    waiting: int | None = None  # the system's own counts; None where it does not count
    admitted: int | None = None
    running: int | None = None
    leads_to: str = ""  # a LocalQueue's ClusterQueue
    said: tuple[Said, ...] = ()


@dataclass(frozen=True, slots=True)
class Inside:
    """What one part of a network domain's members is found by. For nodes: a name, a pattern that is somewhere in the
    name, or labels of which all must match; domains are found by their names alone."""

    domains: bool  # they are other domains, and no nodes
    name: str = ""
    pattern: str = ""
    labels: tuple[Match, ...] = ()


@dataclass(frozen=True, slots=True)
class Domain:
    """One domain of a network's tree (Volcano's HyperNode). The lower its tier, the nearer its nodes are."""

    name: str
    tier: int
    tier_name: str = ""
    members: tuple[Inside, ...] = ()


@dataclass(frozen=True, slots=True)
class Offer:
    """A node as a scheduler that keeps its own books sees it (Slurm). `out` says in its words why it takes no work."""

    node: str
    gpus: int
    gpus_used: int
    cpu_millis: int
    cpu_millis_used: int
    memory_mib: int
    memory_mib_used: int
    out: str = ""
    partitions: tuple[str, ...] = ()
    reserved_for: str = ""  # key of the gang it is kept free for


@dataclass(frozen=True, slots=True)
class Reading:
    """All that a polled system says at one moment. `troubles` are what could not be read: the rest is still true.

    `positions`: keys of objects that others speak of, with their places in their queues (Kueue's visibility).
    """

    at: datetime
    objects: tuple[GangObject, ...] = ()
    members: tuple[Member, ...] = ()
    queues: tuple[QueueObject, ...] = ()
    offers: tuple[Offer, ...] = ()
    troubles: tuple[str, ...] = ()
    positions: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """One resource that the API server serves and that we can read, with the version we chose."""

    system: System
    kind: str
    group: str
    version: str
    plural: str

    @property
    def path(self) -> str:
        return f"/apis/{self.group}/{self.version}/{self.plural}"


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one custom resource says: as a rule one object or one queue; a set of groups speaks of several gangs.

    `key` is the resource's own `namespace/name` within its kind: what a later event of it replaces. `of_members`: what
    it says of members, by their keys.
    """

    key: str
    objects: tuple[GangObject, ...] = ()
    queues: tuple[QueueObject, ...] = ()
    domains: tuple[Domain, ...] = ()
    of_members: tuple[tuple[str, Said], ...] = ()


class GangWatcher(Protocol):
    """The custom resources of a Kubernetes cluster. Raises `fleet.ports.errors`."""

    def kinds(self) -> Sequence[Kind]:
        """What is served of all that can be read, one version each; asked of discovery, so it may change."""
        ...

    def watch(self, kind: Kind, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        """Like `ClusterReader.watch_nodes`; items are Spoken, names their keys."""
        ...


class GangPoll(Protocol):
    """A system that is asked again and again: Slurm, YuniKorn, Kueue's visibility. Raises `fleet.ports.errors`."""

    system: System

    def read(self) -> Reading: ...
