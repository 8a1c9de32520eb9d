"""What many nodes have in common, in the quality replay: a fleet on arrays before a whole observer's judge.

Decides how a cluster of healthy nodes lives in a database with racks, leaves, NVLink domains and a mount server, in
mode `automate`, judged every five seconds of virtual time while its exporters answer every fifteen. Everything behind
the frame is the real thing: signals, incidents, shared ones, plans. Refuses a network and a scheduler: nothing that is
planned is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from django.db.models import QuerySet

from fleet.health import services as health
from fleet.health.models import Incident
from fleet.inventory import lease, selectors
from fleet.inventory.models import Cluster, Mode, Node, Pool
from fleet.lifecycle import rows
from fleet.lifecycle.models import Workflow
from fleet.observer.judge import Judge
from fleet.observer.session import Session
from fleet.ops.bench._healthy import START, Healthy
from fleet.telemetry.kernellog import KernelLine

CYCLE, CYCLES = 5.0, 3
LEAF, RACK, DOMAIN = 32, 16, 18  # nodes of each


class Room:
    """A cluster of its own; `live` lets time pass. `elapsed` counts from the first answers."""

    def __init__(self, name: str, nodes: int, seed: int) -> None:
        self.fleet = Healthy(nodes, CYCLE * CYCLES, seed, calm=True)
        self.clock = self.fleet.clock
        self.began = self.clock.mono
        self.cluster = _cluster(name, self.fleet)
        epoch = lease.take(self.cluster.pk, "bench", self.clock.now())
        assert epoch is not None  # noqa: S101  the cluster is new
        self.session = Session(self.cluster, epoch, self.clock, Path(), self.fleet.interval)
        self.session.connected_at = self.cluster.connected_at
        self.session.know_nodes(selectors.node_ids(self.cluster.pk))
        self.judge = Judge(self.session, self.fleet.frame)
        self.judge.start()
        self.most_open = 0

    @property
    def elapsed(self) -> float:
        return self.clock.mono - self.began

    def live(self, seconds: float, acts: Callable[[], None] = lambda: None) -> None:
        """`acts` is called in each round before the exporters answer, and in each cycle."""
        end = self.elapsed + seconds
        while self.elapsed < end:
            self.fleet.advance(acts, CYCLE)
            self._turn()
            for _ in range(CYCLES - 1):
                self.clock.tick(CYCLE)
                acts()
                self._turn()

    def _turn(self) -> None:
        self.judge.cycle()
        self._commit()
        self.judge.settle()
        self.most_open = max(self.most_open, self.incidents().filter(state=Incident.OPEN).count())

    def _commit(self) -> None:
        while self.judge.commit():
            pass

    def say(self, numbers: Iterable[int], *texts: str) -> None:
        """Kernel lines of these nodes, now."""
        names = [self.fleet.names[number] for number in numbers]
        lines = [(name, KernelLine(name, self.clock.now(), text)) for name in names for text in texts]
        self.judge.hear(lines)
        self._commit()

    def ready(self, numbers: Iterable[int], ready: bool | None) -> None:
        """What Kubernetes says of these nodes."""
        names = [self.fleet.names[number] for number in numbers]
        changed = Node.objects.filter(cluster=self.cluster, name__in=names).exclude(ready=ready)
        changed.update(ready=ready, ready_since=self.clock.now(), ready_reason="" if ready else "NodeStatusUnknown")

    def incidents(self) -> QuerySet[Incident]:
        return Incident.objects.filter(cluster=self.cluster)

    def planned(self) -> int:
        """Plans that stand."""
        return Workflow.objects.filter(cluster=self.cluster).exclude(state="cancelled").count()


def _cluster(name: str, fleet: Healthy) -> Cluster:
    """Rows of a cluster that has been connected for a week."""
    known = next(iter(fleet.facts.values()))
    cluster = Cluster.objects.create(
        name=name, mode=Mode.AUTOMATE, mode_since=known.connected_at, created_at=known.connected_at,
        connected_at=known.connected_at,
    )  # fmt: skip
    pool = Pool.objects.create(cluster=cluster, name="train")
    made = Node.objects.bulk_create(
        Node(
            cluster=cluster, pool=pool, name=node, uid=f"{name}-{node}", managed=True, ready=True,
            ready_since=known.connected_at, rack=f"rack-{n // RACK}", leaf=f"leaf-{n // LEAF}",
            nvlink_domain=f"nvl-{n // DOMAIN}", boot_id=known.boot_id, boot_since=known.boot_at, gpu_capacity=8,
            gpu_allocatable=8, gpu_expected=8, first_seen_at=known.connected_at, heartbeat_at=START, seen_at=START,
        )
        for n, node in enumerate(fleet.names)
    )  # fmt: skip
    ids = [node.pk for node in made]
    rows.ensure_rows(cluster.pk, ids, ids, known.connected_at)
    health.ensure_verdicts(cluster.pk, ids, known.connected_at)
    return cluster
