"""Jobs that a field of their own stops whole, and the controllers behind them, beside the engine's small world.

Keeps the promises that the contract tests hold the real adapter to: one write on the version and the UID that were
read, a generation that grows with the spec alone. A controller ends the pods of what is suspended and makes them anew,
on nodes that take work, of what is not.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from fleet.inventory.models import Cluster
from fleet.lifecycle.context import Ports
from fleet.lifecycle.suspending import resuming
from fleet.lifecycle.suspending.models import Suspension
from fleet.ports.cluster import PodSeen
from fleet.ports.errors import Conflict, NotFound
from fleet.ports.suspends import Job
from tests.domain.lifecycle.world import World, a_pod

JOB = "JobSet train/llm"


class Jobs:
    """`kinds`: what the place allows. `writes`: (title, what the field was set to, mark) of each write through this
    port; whoever else changes a job does it by `somebody`."""

    def __init__(self, world: World, kinds: Iterable[str] = ("JobSet",)) -> None:
        self.world = world
        self.places: dict[str, frozenset[str]] = {"train": frozenset(kinds)}
        self.jobs: dict[str, Job] = {}
        self.members: dict[str, list[PodSeen]] = {}  # title -> its pods as they were first
        self.writes: list[tuple[str, bool | None, str | None]] = []
        self.deaf: set[str] = set()  # titles whose controller does nothing
        self.fails: Callable[[str], None] = lambda verb: None
        self.made = 0

    def add(self, *pods: PodSeen, title: str = JOB, **fields: Any) -> Job:
        """A job with these pods at work."""
        kind, _, place = title.partition(" ")
        namespace, _, name = place.partition("/")
        values: dict[str, Any] = {"uid": f"uid-{title}", "version": "1", "generation": 1}
        values |= {"suspended": False, "ended": False}
        self.jobs[title] = Job(kind=kind, namespace=namespace, name=name, **{**values, **fields})  # type: ignore[arg-type]
        self.members[title] = list(pods)
        for pod in pods:
            self.world.pods[pod.key] = pod
        return self.jobs[title]

    def somebody(self, title: str = JOB, **fields: Any) -> None:
        """A person or another controller changes it."""
        old = self.jobs[title]
        spec = "suspended" in fields and fields["suspended"] != old.suspended
        generation = old.generation + int(spec)
        version = str(int(old.version) + 1)
        self.jobs[title] = dataclasses.replace(old, **{"version": version, "generation": generation, **fields})

    def follow(self) -> None:
        """What the controllers do meanwhile."""
        now = self.world.clock.now()
        for title, job in self.jobs.items():
            there = [p for p in self.world.pods.values() if self._made_by(p) == title]
            if title in self.deaf or job.ended:
                continue
            if job.suspended:
                for pod in [one for one in there if one.deleting_since is None]:
                    self.world.pods[pod.key] = dataclasses.replace(pod, deleting_since=now)
            elif not there:
                self._make(title)

    def _make(self, title: str) -> None:
        free = [name for name, node in self.world.nodes.items() if not node.unschedulable and node.ready]
        for number, pod in enumerate(self.members[title]):
            self.made += 1
            again = dataclasses.replace(pod, uid=f"uid-{pod.name}-{self.made}", node=free[number % len(free)])
            self.world.pods[pod.key] = again

    def _made_by(self, pod: PodSeen) -> str:
        return next((title for title, pods in self.members.items() if pod.key in {one.key for one in pods}), "")

    # -- the port -----------------------------------------------------------------------------------------------------

    def kinds(self, namespace: str) -> frozenset[str] | None:
        return self.places.get(namespace)

    def job_of(self, pod: PodSeen) -> Job | None:
        self.fails("job_of")
        return self.jobs.get(self._made_by(pod))

    def read(self, kind: str, namespace: str, name: str) -> Job:
        self.fails("read")
        found = self.jobs.get(f"{kind} {namespace}/{name}")
        if found is None:
            raise NotFound(name)
        return found

    def change(self, job: Job, suspend: bool | None, mark: str | None) -> None:
        verb = "mark" if suspend is None else "suspend" if suspend else "resume"
        self.fails(verb)
        self.world.crash(f"before {verb}")
        now = self.jobs.get(job.title)
        if now is None:
            raise NotFound(job.name)
        if (now.version, now.uid) != (job.version, job.uid):
            raise Conflict("changed")
        if suspend:
            rows = Suspension.objects.filter(mark=mark, uid=job.uid, ended_at=None)
            assert rows.exists(), "nothing was written down before the write"
        self.writes.append((job.title, suspend, mark))
        self.somebody(job.title, mark=mark or "", suspended=now.suspended if suspend is None else suspend)
        self.world.crash(f"after {verb}")

    def check(self) -> list[str]:
        return []

    # -- what tests ask --------------------------------------------------------------------------------

    def set_to(self, title: str = JOB) -> list[bool | None]:
        return [suspend for named, suspend, _ in self.writes if named == title]


def attach(world: World, patch: pytest.MonkeyPatch, jobs: Jobs) -> Jobs:
    """The world's ports get the jobs; its physics their controllers, and its workers the sweep."""
    ports, settle, work = World.ports_of, World.settle, World.work

    def ports_of(one: World, cluster: Cluster) -> Ports:
        return dataclasses.replace(ports(one, cluster), suspends=jobs)

    def settled(one: World) -> None:
        settle(one)
        jobs.follow()

    def worked(one: World) -> None:
        work(one)
        resuming.sweep(Cluster.objects.get(pk=one.cluster.pk), jobs, one.clock.now())

    patch.setattr(World, "ports_of", ports_of)
    patch.setattr(World, "settle", settled)
    patch.setattr(World, "work", worked)
    return jobs


def ranks(*nodes: str, **fields: Any) -> list[PodSeen]:
    """One pod of the gang on each node."""
    return [a_pod(f"w-{number}", node, **fields) for number, node in enumerate(nodes)]
