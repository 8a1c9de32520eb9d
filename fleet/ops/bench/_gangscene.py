"""A cluster full of gangs, as the watches would have told it, without any API server.

Decides the mix: eight pods a node (half of them daemons), a gang for every five nodes, most of them at work, others
waiting, half started, starting or suspended, in the queues of three schedulers; some bound to a leaf, some of two kinds
of members; every hundredth node is out. Refuses chance: the same size is the same cluster.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from fleet.gangs import board
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Out
from fleet.gangs.roster import Roster
from fleet.observer.gangrooms import RoomBook
from fleet.ports.cluster import NodeSeen
from fleet.ports.gangs import GangObject, Member, Need, Part, QueueObject, Quota, Ref, Said, Spoken, System, Topology

T0 = datetime(2026, 1, 1, tzinfo=UTC)
GPU, GPUS, WORKERS, DAEMONS = "nvidia.com/gpu", 8, 4, 4  # of a node
NODES_PER_GANG, QUEUES, POOLS, NODES_PER_LEAF = 5, 40, 4, 32
SYSTEMS: tuple[System, ...] = ("coscheduling", "volcano", "kai")
FATES = (*["running"] * 35, *["waiting"] * 10, "partial", "partial", "starting", "suspended", "mixed")
LEAF = "topology.muster.dev/leaf"
DAEMON = Need(cpu_millis=100, memory_mib=128)
SAID = Said("CAPACITY", "0/10000 nodes are available: 9990 Insufficient nvidia.com/gpu.", T0, "PodScheduled")


@dataclass(slots=True)
class Scene:
    """`judge` is what the observer does in each turn."""

    nodes: dict[str, NodeSeen]
    objects: list[GangObject]
    queues: list[QueueObject]
    members: list[Member]
    outs: dict[str, Out]
    roster: Roster = field(default_factory=Roster)
    book: RoomBook = field(default_factory=RoomBook)
    last: Board | None = None

    def feed(self) -> None:
        self.roster, self.book, self.last = Roster(), RoomBook(), None
        for one in self.objects:
            self.roster.speak(one.ref.system, Spoken(one.ref.key, (one,)))
        for queue in self.queues:
            self.roster.speak("queues", Spoken(queue.ref.key, queues=(queue,)))
        for member in self.members:
            self.roster.member(member)

    def judge(self) -> Board:
        gangs, queues = dict(self.roster.gangs()), self.roster.queues()
        self.last = board.read(gangs, queues, self.book.rooms(self.nodes, self.roster, self.outs), self.last)
        return self.last


def name_of(n: int) -> str:
    return f"n{n:05d}"


def scene(nodes: int) -> Scene:
    names = [name_of(n) for n in range(nodes)]
    made = Scene({name: a_node(name, n) for n, name in enumerate(names)}, [], list(_queues()), [], {})
    made.outs = {
        name: Out("draining", "Xid 79 on GPU 3", T0, T0 + timedelta(hours=n % 7)) for name, n in _hundredth(names)
    }
    for n in range(nodes // NODES_PER_GANG):
        where = names[n * NODES_PER_GANG : (n + 1) * NODES_PER_GANG]
        _gang(made, n, where)
    for name in names:
        made.members += [_daemon(name, k) for k in range(DAEMONS)]
    return made


def a_node(name: str, n: int, *, unschedulable: bool = False) -> NodeSeen:
    labels = {"kubernetes.io/hostname": name, "pool": f"pool-{n % POOLS}", LEAF: f"leaf-{n // NODES_PER_LEAF}"}
    return NodeSeen(
        name=name, uid=name, resource_version="1", unschedulable=unschedulable, ready=True, ready_reason="",
        ready_since=T0, heartbeat_at=T0, boot_id="b", machine_id="m", system_uuid="u", provider_id="", kernel="6",
        os_image="", kubelet="v1.34", addresses=(), labels=labels, annotations={}, taints=(), conditions={},
        gpu_capacity=GPUS, gpu_allocatable=GPUS, created_at=T0, allocatable=((GPU, GPUS),), cpu_millis=192_000,
        memory_mib=2_000_000,
    )  # fmt: skip


def _hundredth(names: list[str]) -> Iterator[tuple[str, int]]:
    return ((name, n) for n, name in enumerate(names) if n % 100 == 0)


def _queues() -> Iterator[QueueObject]:
    quota = Quota(GPU, GPU, guaranteed=1000.0, used=400.0, ceiling=2000.0)
    for n in range(QUEUES):
        yield QueueObject(Ref(SYSTEMS[n % 3], "Queue", "", f"team-{n}"), quotas=(quota,), head_blocks=n % 8 == 0)


def _gang(made: Scene, n: int, where: list[str]) -> None:
    """Its pods ask for two GPUs each, four to a node, so the nodes of a gang at work are full."""
    fate, system, size = FATES[n % len(FATES)], SYSTEMS[n % QUEUES % 3], len(where) * WORKERS
    need = Need(gpus=2, cpu_millis=8_000, memory_mib=65_536, selector=(("pool", f"pool-{n % POOLS}"),) if n % 3 else ())
    level = Topology(LEAF, required=True) if n % 7 == 0 else None
    ref = Ref(system, "PodGroup", "train", f"job-{n}", f"uid-{n}")
    parts = (Part("worker", size, need=need, topology=level),)
    placed = {"running": size, "starting": size, "partial": size // 2}.get(fate, 0)
    made.objects.append(
        GangObject(
            ref, places=True, queue=f"team-{n % QUEUES}", priority=n % 5, created_at=T0 + timedelta(minutes=n),
            wanted=size, minimum=size, parts=parts, suspended=fate == "suspended", guarantee="whole",
        )
    )  # fmt: skip
    for k in range(0 if fate == "suspended" else size):
        node = where[k // WORKERS] if k < placed else ""
        big = Need(gpus=8, cpu_millis=64_000, memory_mib=524_288) if fate == "mixed" and k % WORKERS == 0 else need
        made.members.append(a_member(ref, k, node, big, ready=fate != "starting"))


def a_member(ref: Ref, k: int, node: str, need: Need, *, ready: bool = True) -> Member:
    return Member(
        key=f"{ref.namespace}/{ref.name}-{k}", uid=f"{ref.uid}-{k}", node=node,
        state=("ready" if ready else "placed") if node else "pending", need=need, links=(ref.key,),
        owner=f"Job/{ref.name}", role="worker", created_at=T0, waits=None if node else SAID,
    )  # fmt: skip


def _daemon(node: str, k: int) -> Member:
    return Member(f"kube-system/d{k}-{node}", f"d{k}-{node}", node, "ready", DAEMON, owner=f"DaemonSet/d{k}")
