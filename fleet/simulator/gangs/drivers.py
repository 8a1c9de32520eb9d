"""What runs inside the Ray clusters: drivers, their placement groups, and what becomes of both when a worker dies.

It decides where bundles lie, by the workers that are ready, and when a driver fails, ends or is started again. It
refuses to start before the operator calls the cluster provisioned, as a RayJob does, and to know any queue.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Literal

import orjson

from fleet.simulator.gangs import status
from fleet.simulator.gangs.operator import Operator
from fleet.simulator.gangs.plan import Team
from fleet.simulator.gangs.shapes import HEAD
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.store import Event, Record, Store
from fleet.simulator.timeline import Timeline

RESUBMIT_SECONDS = 10.0
OUT_OF_MEMORY = "Memory cgroup out of memory: Killed process 4711 (ray::RayTrainWorker)"
State = Literal["PENDING", "CREATED", "RESCHEDULING", "REMOVED"]


@dataclass(slots=True)
class Bundles:
    """A placement group. `places`: the pod of each bundle, "" where it has none."""

    id: str
    name: str
    job: str
    gpus: int
    detached: bool
    places: list[str]
    state: State = "PENDING"


@dataclass(slots=True)
class Driver:
    id: str
    submission: str
    started_at: float
    group: Bundles
    status: Literal["RUNNING", "SUCCEEDED", "FAILED"] = "RUNNING"
    message: str = ""
    ended_at: float = 0.0
    attempts: int = 1


@dataclass(slots=True)
class Ray:
    """One Ray cluster from within."""

    key: str
    team: Team
    drivers: list[Driver] = field(default_factory=list)
    idle_since: dict[str, float] = field(default_factory=dict)  # of ready workers that hold no bundle
    began: bool = False  # its driver's placement group has been whole once

    @property
    def groups(self) -> list[Bundles]:
        return [driver.group for driver in self.drivers if driver.group.state != "REMOVED"]


class Drivers:
    def __init__(self, store: Store, timeline: Timeline, kubelets: Kubelets, operator: Operator, rng: Random) -> None:
        self.clusters = store["rayclusters"]
        self.pods = store["pods"]
        self.timeline = timeline
        self.kubelets = kubelets
        self.operator = operator
        self.rng = rng
        self.rays: dict[str, Ray] = {}
        self.teams: dict[str, Team] = {}  # cluster -> who submitted it
        self.ended: list[Callable[[str, Driver], None]] = []

    def begin(self) -> None:
        self.clusters.listeners.append(self._cluster_changed)
        self.pods.listeners.append(self._pod_changed)

    def waiting(self, key: str) -> int:
        """Bundles without a place."""
        ray = self.rays.get(key)
        return 0 if ray is None else sum(group.places.count("") for group in ray.groups)

    def asked(self, key: str) -> int:
        ray = self.rays.get(key)
        return 0 if ray is None else sum(len(group.places) for group in ray.groups)

    def _cluster_changed(self, event: Event) -> None:
        key = event.record.key
        cluster = orjson.loads(event.record.body)
        if event.type == "DELETED" or cluster["spec"].get("suspend"):
            self.rays.pop(key, None)
        elif status.provisioned(cluster) and key not in self.rays:
            team = self.teams.get(key) or Team(event.record.name, event.record.namespace, status.desired(cluster))
            ray = self.rays[key] = Ray(key, team)
            self._submit(ray)

    def _pod_changed(self, event: Event) -> None:
        name = event.record.labels.get("ray.io/cluster")
        ray = self.rays.get(f"{event.record.namespace}/{name}") if name else None
        if ray is None:
            return
        died = event.record.phase == "Failed" and (event.before is None or event.before.phase != "Failed")
        gone = event.type == "DELETED" or died or event.record.deleting
        if event.record.labels["ray.io/group"] == HEAD:
            if gone and not ray.team.tolerant:
                self._lose_all(ray)
        elif died:
            self._worker_died(ray, event.record)
        self.look(ray)

    def _submit(self, ray: Ray) -> None:
        team, number = ray.team, len(ray.drivers) + 1
        job = f"{number:02d}000000"
        bundles = [""] * (team.bundles or team.workers)
        group = Bundles(f"{self.rng.getrandbits(64):016x}{job}", team.name, job, team.gpus, team.detached, bundles)
        submission = f"{team.name}-{self.rng.getrandbits(20):05x}"
        ray.drivers.append(Driver(job, submission, self.timeline.now(), group))
        self.look(ray)

    def look(self, ray: Ray) -> None:
        """Where bundles lie now: those of dead workers nowhere, the others all at once or not at all."""
        there = {r.key: r for r in self.operator.pods_of(ray.key) if r.ready and not r.deleting}
        workers = {key: r for key, r in there.items() if r.labels["ray.io/group"] != HEAD}
        taken: Counter[str] = Counter()
        for group in ray.groups:
            places = [place if place in workers else "" for place in group.places]
            if places != group.places and group.state == "CREATED":
                group.state = "RESCHEDULING"
            group.places = places
            taken.update({place: group.gpus for place in places if place})
        for group in ray.groups:
            self._place(group, workers, taken, ray.team.gpus)
        now = self.timeline.now()
        ray.idle_since = {key: ray.idle_since.get(key, now) for key in workers if not taken[key]}
        if not ray.began and any(driver.group.state == "CREATED" for driver in ray.drivers):
            ray.began = True
            self._fates(ray)

    def _place(self, group: Bundles, workers: dict[str, Record], taken: Counter[str], size: int) -> None:
        missing = group.places.count("")
        free = [key for key in sorted(workers) for _ in range((size - taken[key]) // max(1, group.gpus))]
        if not missing or len(free) < missing:
            return
        for place in free[:missing]:
            group.places[group.places.index("")] = place
            taken[place] += group.gpus
        group.state = "CREATED"

    # -- what the scenario has in store for it ---------------------------------------------------------------------

    def _fates(self, ray: Ray) -> None:
        team = ray.team
        if team.oom_at:
            self.timeline.after(team.oom_at, lambda: self._out_of_memory(ray))
        if team.ends_after:
            self.timeline.after(team.ends_after, lambda: self._over(ray, ray.drivers[-1], "SUCCEEDED", ""))

    def _out_of_memory(self, ray: Ray) -> None:
        workers = [r for r in self.operator.pods_of(ray.key) if r.ready and r.labels["ray.io/group"] != HEAD]
        if workers and self.rays.get(ray.key) is ray:
            victim = workers[-1]
            self.kubelets.finish(victim.key, victim.uid, 137, OUT_OF_MEMORY, "OOMKilled")

    def _worker_died(self, ray: Ray, pod: Record) -> None:
        for driver in ray.drivers:
            if driver.status == "RUNNING" and pod.key in driver.group.places:
                driver.attempts += 1
                if driver.attempts - 1 > ray.team.max_failures >= 0:
                    text = f"ray.exceptions.OutOfMemoryError: Task was killed on {pod.name}: {OUT_OF_MEMORY}"
                    self._over(ray, driver, "FAILED", text)

    def _lose_all(self, ray: Ray) -> None:
        for driver in ray.drivers:
            self._over(ray, driver, "FAILED", "The head of the cluster was lost, and all its state with it.")
            driver.group.state = "REMOVED"

    def _over(self, ray: Ray, driver: Driver, how: Literal["SUCCEEDED", "FAILED"], message: str) -> None:
        """A detached group outlives its driver; nobody else removes it."""
        if driver.status != "RUNNING" or self.rays.get(ray.key) is not ray:
            return
        driver.status, driver.message, driver.ended_at = how, message, self.timeline.now()
        if not driver.group.detached:
            driver.group.state = "REMOVED"
        self.look(ray)
        self.operator.plan(ray.key)
        for told in self.ended:
            told(ray.key, driver)
        if how == "FAILED" and ray.team.resubmits:
            self.timeline.after(RESUBMIT_SECONDS, lambda: self._again(ray))

    def _again(self, ray: Ray) -> None:
        if self.rays.get(ray.key) is ray:
            self._submit(ray)
