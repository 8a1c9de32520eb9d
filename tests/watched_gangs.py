"""The observer's gangs on a simulated fleet, all over HTTP: its watches, its board, its dashboards, its conditions.

It decides what of an observer takes part: what reads gangs, judges them and writes them. It refuses to know the
simulator from within but for what a test must know to judge the answer; acts go through the API like anybody's.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from fleet.adapters import kubernetes, ray
from fleet.gangs.board import Board
from fleet.gangs.conditions.condition import Condition
from fleet.gangs.dashboards import Place
from fleet.gangs.diagnosis.rooms import Out
from fleet.gangs.form import Gang
from fleet.inventory import lease
from fleet.observer.conditions import Conditions
from fleet.observer.gangs import Gangs
from fleet.observer.gangwatch import GangWatch
from fleet.observer.raydash import RayAsker
from fleet.observer.session import Session
from fleet.observer.world import World
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.cluster import WatchState
from fleet.ports.ray import RayDashboard
from fleet.simulator.embed import running
from fleet.simulator.options import Options
from fleet.simulator.server import Simulator
from tests.builders import a_cluster
from tests.unit.simulator.client import MERGE, Client

Json = dict[str, Any]


@dataclass
class Watched:
    """`named`: since when (of the monotonic clock) each condition stands, by its code and the gang's title."""

    simulator: Simulator
    fleet: Client
    gangs: Gangs
    ray: RayAsker
    watch: GangWatch
    named: dict[tuple[str, str], float] = field(default_factory=dict)
    sick: dict[str, str] = field(default_factory=dict)
    outs: dict[str, Out] = field(default_factory=dict)

    @property
    def board(self) -> Board:
        assert self.gangs.board is not None
        return self.gangs.board

    def turn(self) -> None:
        """One turn of the observer; what stands at its end is noted with the time."""
        self.gangs.turn()
        self.ray.turn()
        now = time.monotonic()
        if self.gangs.board is not None:
            standing = {(one.code, self.title(one.gang)): one for one in self.watch.conditions}
            self.named = {key: self.named.get(key, now) for key in standing}

    def until(self, holds: Any, seconds: float = 60.0) -> Any:
        """Turn after turn until that is true, in the observer's own rhythm or faster."""
        end = time.monotonic() + seconds
        while True:
            self.turn()
            if self.gangs.board is not None and (found := holds()):
                return found
            assert time.monotonic() < end, f"not within {seconds:g} s: {sorted(self.named)} {self.states()}"
            time.sleep(0.25)

    def title(self, key: str) -> str:
        gang = self.board.gangs.get(key)
        return key if gang is None else gang.title

    def gang(self, title: str) -> Gang:
        return next(gang for gang in self.board.gangs.values() if gang.title == title)

    def states(self) -> dict[str, str]:
        found = self.gangs.board
        return {} if found is None else {gang.title: gang.state for gang in found.gangs.values()}

    def condition(self, code: str, title: str) -> Condition:
        return next(one for one in self.watch.conditions if one.code == code and self.title(one.gang) == title)

    # -- what people do in the cluster ---------------------------------------------------------------------------

    def cordon(self, node: str, cordoned: bool) -> None:
        assert self.fleet.patch_node(node, {"spec": {"unschedulable": cordoned or None}}).status == 200

    def suspend(self, job: str) -> None:
        path = f"/apis/ray.io/v1/namespaces/{job.replace('/', '/rayjobs/')}"
        assert self.fleet.call("PATCH", path, {"spec": {"suspend": True}}, MERGE).status == 200


@contextlib.contextmanager
def watching(folder: Path, **options: Any) -> Iterator[Watched]:
    """A fleet and its observer's gangs. Needs a database."""
    with running(Options(var=folder, **options)) as simulator:
        cluster = a_cluster()
        epoch = lease.take(cluster.pk, "here", SYSTEM_CLOCK.now())
        assert epoch is not None
        session = Session(cluster, epoch, SYSTEM_CLOCK, folder, 15.0)
        config = str(folder / "simulator" / "kubeconfig")
        world, conditions = World(), Conditions()
        sick: dict[str, str] = {}
        outs: dict[str, Out] = {}
        gangs = Gangs(
            session, world, conditions, lambda: kubernetes.gang_watcher(config), list, lambda: _copy(outs)
        )  # fmt: skip
        asker = RayAsker(session, conditions, lambda: gangs.board, _opened, [ip_network("127.0.0.0/8")])
        watch = GangWatch(session, asker.readings, lambda: sick, gangs.starved)
        gangs.onlookers = [watch]
        gangs.poll()  # there is nobody to ask, and no board is drawn before that is known
        for work in (_nodes, _pods):
            threading.Thread(target=work, args=(config, session, world, gangs), daemon=True).start()
        found = Watched(simulator, Client(simulator), gangs, asker, watch, sick=sick, outs=outs)
        try:
            found.until(lambda: True)
            yield found
        finally:
            session.end("the test is over")
            asker.close()


def _copy(outs: Mapping[str, Out]) -> Mapping[str, Out]:
    return dict(outs)


def _opened(place: Place, ip: str) -> RayDashboard:
    return ray.dashboard(ray.Connection(place.url, ip))


def _nodes(config: str, session: Session, world: World, gangs: Gangs) -> None:
    for change in kubernetes.reader(config).watch_nodes(session.stopping, _unheard):
        world.node_change(change)


def _pods(config: str, session: Session, world: World, gangs: Gangs) -> None:
    for change in kubernetes.reader(config).watch_pods(session.stopping, _unheard):
        gangs.pod_change(change)


def _unheard(state: WatchState) -> None:
    pass
