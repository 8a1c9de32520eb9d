"""Sets the teams of a scenario on the stage: their nodes, their namespaces, and what each submits at its time.

It decides which nodes are set apart: the last of the training nodes, which no training gang has yet. It refuses to set
anything where the fleet is smaller than the scenario needs.
"""

import uuid
from random import Random
from typing import Any

from fleet.simulator.gangs import shapes
from fleet.simulator.gangs.autoscaler import Autoscaler
from fleet.simulator.gangs.dashboard import Dashboards
from fleet.simulator.gangs.drivers import Drivers
from fleet.simulator.gangs.kueue import Kueue
from fleet.simulator.gangs.operator import Operator
from fleet.simulator.gangs.plan import Team, Teams
from fleet.simulator.gangs.podgroups import PodGroups
from fleet.simulator.gangs.rayjobs import RayJobs
from fleet.simulator.gangs.training import Training
from fleet.simulator.happenings import Happenings
from fleet.simulator.host import TRAIN, Host, identity
from fleet.simulator.kubelets import Kubelets
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline, stamp

Json = dict[str, Any]
DAY = 86400


def set_apart(hosts: list[Host], teams: Teams) -> None:
    """Give the last training nodes to the pools of the teams; before anything else looks at the hosts."""
    free = [host for host in hosts if host.pool == TRAIN]
    if not fits(len(hosts), len(free), teams):
        return
    for pool in teams.pools:
        for _ in range(pool.nodes):
            free.pop().pool = pool.name


def fits(nodes: int, training: int, teams: Teams) -> bool:
    return nodes >= teams.least_nodes and training >= teams.nodes


class Stage:
    def __init__(
        self,
        store: Store,
        timeline: Timeline,
        kubelets: Kubelets,
        happenings: Happenings,
        hosts: dict[str, Host],
        teams: Teams,
        seed: int,
        address: str,
    ) -> None:
        rng = Random(seed + 2)  # its own, so that the rest of the fleet is the same with and without teams
        pools = {host.pool for host in hosts.values()}
        self.teams = teams if all(pool.name in pools for pool in teams.pools) else Teams()
        self.store = store
        self.timeline = timeline
        self.rng = rng
        self.hosts = hosts
        self.seed = seed
        self.operator = Operator(store, timeline, rng, kubelets, happenings)
        self.drivers = Drivers(store, timeline, kubelets, self.operator, rng)
        self.jobs = RayJobs(store, timeline, rng, self.drivers, address)
        self.autoscaler = Autoscaler(store, timeline, self.drivers)
        self.pod_groups = PodGroups(store, timeline)
        self.training = Training(store, timeline, rng, kubelets)
        self.kueue = Kueue(store, timeline, rng, self.teams.queues, seed)
        self.dashboards = Dashboards(self.drivers)

    def set_scene(self) -> None:
        """What was there before anybody connected."""
        now = int(self.timeline.now())
        for namespace in sorted({team.namespace for team in self.teams.teams}):
            meta = {"name": namespace, "uid": str(identity(self.seed, "namespaces", namespace))}
            meta["creationTimestamp"] = stamp(now - DAY)
            self.store["namespaces"].put({"metadata": meta, "spec": {}, "status": {"phase": "Active"}})
        for pool in self.teams.pools:
            for host in [host for host in self.hosts.values() if host.pool == pool.name][: pool.cordoned]:
                node = self.store["nodes"].read(host.name)
                if node is not None:
                    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
                    taints = [taint | {"timeAdded": stamp(now - DAY)}]
                    node["spec"] |= {"unschedulable": True, "taints": taints}
                    self.store["nodes"].put(node)

    def begin(self) -> None:
        for part in (
            self.operator,
            self.drivers,
            self.jobs,
            self.autoscaler,
            self.training,
            self.kueue,
            self.pod_groups,
        ):
            part.begin()
        for team in self.teams.teams:
            self.timeline.after(team.at, lambda team=team: self._submit(team))  # type: ignore[misc]

    def _submit(self, team: Team) -> None:
        plural, made = ("rayjobs", shapes.job(team)) if team.kind == "job" else ("rayclusters", shapes.cluster(team))
        made["metadata"] |= {
            "uid": str(uuid.UUID(int=self.rng.getrandbits(128), version=4)),
            "creationTimestamp": self.timeline.stamp(),
            "generation": 1,
        }
        if team.queue:
            made["spec"]["suspend"] = True  # as Kueue's webhook does until it lets the job in
        self.drivers.teams[f"{team.namespace}/{team.name}"] = team
        self.store[plural].put(made)
