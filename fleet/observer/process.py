"""One observer: from the lease to the last thread.

Decides the order: lease, memory of the rules, watches, first sync, scrapes and pushes, cycles; and what ends it: a
signal, a lost lease, a removed cluster or a changed credential. Refuses to call itself ready before the lease is held
and the first list of nodes is written.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.db import connection

from fleet import wiring, wiring_gangs
from fleet.inventory import clusters, lease
from fleet.inventory.models import Cluster, MetricsSource
from fleet.observer import garbage
from fleet.observer.conditions import Conditions
from fleet.observer.cycle import Cycle
from fleet.observer.discovery import Discovery
from fleet.observer.doors import open_doors
from fleet.observer.fabric import Fabric
from fleet.observer.front import PLAIN, Front, Tls, listen
from fleet.observer.gangasks import GangAsks
from fleet.observer.gangendings import GangEndings
from fleet.observer.gangminutes import GangMinutes
from fleet.observer.gangs import POLL_EVERY, TURN_EVERY, Gangs
from fleet.observer.gangwatch import GangWatch
from fleet.observer.grey import Grey
from fleet.observer.judge import Judge
from fleet.observer.keeping import Keeper
from fleet.observer.lane import Lane
from fleet.observer.nodeconditions import ConditionWatch
from fleet.observer.push import Push, Refusals
from fleet.observer.querying import Announced, Querier, rule_reads
from fleet.observer.raydash import TURN_EVERY as RAY_EVERY
from fleet.observer.raydash import RayAsker
from fleet.observer.runfiles import publish, withdraw
from fleet.observer.scraping import Scraper
from fleet.observer.session import DATABASE_AWAY, Loop, Session, Stopping
from fleet.observer.targetlist import LOOK_EVERY, TargetList
from fleet.observer.world import Exporter, World
from fleet.observer.writer import Writer
from fleet.ports.clock import Clock
from fleet.ports.cluster import Change, ClusterReader, WatchState
from fleet.ports.errors import PortError
from fleet.ports.metrics import MetricsReader
from fleet.readmodels.fleet_blob import Publisher
from fleet.readmodels.gang_outs import outs
from fleet.readmodels.gang_sick import sick
from fleet.readmodels.gang_verdicts import verdicts
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.intake import Intake
from fleet.telemetry.pushintake import PushIntake
from fleet.telemetry.series import AMBIGUOUS, Ambiguous

log = logging.getLogger(__name__)
RENEW_EVERY = 2.0
STANDBY_EVERY = 0.5
FLUSH_EVERY = 0.25
CYCLE_EVERY = 2.0
CYCLE_REST = 0.3  # each committed line wakes the cycle: a stream of them must not make it turn without a pause
PAGES_EVERY = 2.0
READER_EVERY = 5.0
RIGHTS_EVERY = 300.0
PATIENCE = 2.5


class Observer:
    """Everything of one holding of the lease."""

    def __init__(self, session: Session, push_host: str, push_port: int, tls: Tls = PLAIN) -> None:
        self.session = session
        self.frame = Frame()
        self.world = World()
        self.conditions = Conditions(list(session.cluster.conditions))
        self.refusals = Refusals()
        self.judge = Judge(session, self.frame)
        self.intake = Intake(self.frame, self.resolve)
        self.listed = TargetList(session, self.conditions, self.resolve)
        self.scraper = Scraper(
            session, self.intake, self._exporters, self._exporters_version, self.world.pods_synced.is_set
        )
        self.cycle = Cycle(session, self.frame, self.judge, self.scraper, self.conditions, self._hurry)
        self.cycle_loop = Loop(session, "cycle", self.cycle.turn, CYCLE_EVERY, CYCLE_REST)
        self.writer = Writer(session, self.world, self._aliases_changed, self._rebooted)
        self.writer.heard = ConditionWatch(session, self.judge).look
        self.lane = Lane(session, self.judge, self.cycle_loop.wake.set)
        self.pushes = PushIntake(self.frame, self.resolve, session.interval)
        push = Push(session, self.lane, self.refusals, Discovery(session, self.world, self._known).targets)
        open_doors(push, self.pushes)
        listener = listen(push_host, push_port)
        self.front = Front(session, push, self.scraper, listener, tls)
        gleaner = Gleaner(self.frame, self.resolve, session.interval)
        self.querier = Querier(
            session, gleaner, self.conditions, self.refusals, self._metrics,
            Announced(self.world, self.listed.any_exporters), rule_reads(),
        )  # fmt: skip
        self.front.beside.append(self.querier.run)
        fabric = Fabric(session, self.frame, self.listed, self.conditions, self.refusals, wiring.fabric)
        self.front.beside.append(fabric.run)
        if self.front.port != push_port:
            text = f"The push port {push_port} is taken; pushes are received on {self.front.port}."
            self.conditions.state("push_port", text, session.clock.now())
        self.keeper = Keeper(session, self.frame, self.intake, self.refusals, self.judge.remember)
        seconds = settings.GREY_SAMPLE_SECONDS
        self.grey = Grey(session, self.frame, self.judge, self.conditions, self.world.roles, seconds)
        self.rights = Loop(session, "rights", self._check_rights, RIGHTS_EVERY)
        publisher = Publisher(session.cluster_id, session.name)
        turn = self._guarded(lambda: publisher.turn(len(session.node_ids)))
        self.pages = Loop(session, "pages", turn, PAGES_EVERY)
        self.gangs = Gangs(
            session, self.world, self.conditions,
            lambda: wiring.gang_watcher(session.cluster), lambda: wiring.gang_polls(session.cluster),
            lambda: session.once(lambda: outs(session.cluster_id, session.clock.now())),
        )  # fmt: skip
        self.ray = RayAsker(
            session, self.conditions, lambda: self.gangs.board, wiring_gangs.ray_dashboard, settings.RAY_NETWORKS
        )
        found_sick = lambda: session.once(lambda: sick(session.cluster_id))  # noqa: E731
        watch = GangWatch(session, self.ray.readings, found_sick, self.gangs.starved)
        self.endings = GangEndings(
            session, self.ray.readings, self.ray.dashboard_of,
            lambda names: verdicts(session.cluster_id, names), lambda: wiring.reader(session.cluster).events_of,
        )  # fmt: skip
        self.gangs.onlookers = [watch, GangMinutes(session), self.endings]
        self.threads: list[threading.Thread] = []

    def resolve(self, name: str) -> str | Ambiguous | None:
        """For samples: whose name an exporter claims."""
        match = self.session.aliases.resolve(name)
        if match.miss == "ambiguous_node":
            return AMBIGUOUS
        return self.session.names.get(match.node_id) if match.node_id is not None else None

    def _exporters(self) -> Mapping[tuple[str, str], Exporter]:
        """What to scrape: where the metrics API is to be asked, only what is listed besides."""
        return self.listed.exporters() if self._queried() else self._known()

    def _known(self) -> Mapping[tuple[str, str], Exporter]:
        """All exporters. What the list says of one goes before what its pod says."""
        return {**self.world.exporters(), **self.listed.exporters()}

    def _exporters_version(self) -> int:
        """Another number after each change of what is to be scraped."""
        return 2 * (self.world.exporters_version + self.listed.version) + self._queried()

    def _queried(self) -> bool:
        return self.session.cluster.metrics_source == MetricsSource.QUERY

    def _metrics(self) -> MetricsReader | None:
        return wiring.metrics(self.session.cluster)

    def _aliases_changed(self) -> None:
        self.listed.names_changed()
        self.front.call(self.querier.gleaner.aliases_changed)
        self.front.call(self.intake.aliases_changed)
        self.front.call(self.pushes.aliases_changed)

    def _hurry(self, nodes: list[str]) -> None:
        self.front.call(lambda: self.scraper.hurry(nodes))

    def _rebooted(self, nodes: list[str]) -> None:
        self._hurry(nodes)
        self.cycle_loop.wake.set()

    def start(self) -> None:
        session = self.session
        garbage.begin()
        session.persist(self._remember)
        watches = (("nodes", self.world.node_change), ("pods", self._pod_change))
        for resource, take in watches:
            self._thread(f"watch-{resource}", lambda resource=resource, take=take: self._watch(resource, take))  # type: ignore[misc]
        self._add(Loop(session, "writer", self._guarded(self.writer.turn), FLUSH_EVERY))
        self._add(Loop(session, "renew", self._renew, RENEW_EVERY))
        self.threads += [self.lane.start(), self.front.start()]
        self._add(self.cycle_loop)
        self._add(Loop(session, "keeper", self._guarded(self.keeper.turn), 1.0))
        self._add(Loop(session, "grey", self._guarded(self.grey.turn), settings.GREY_SAMPLE_SECONDS))
        self._add(self.rights)
        self._add(Loop(session, "targets", self.listed.look, LOOK_EVERY))
        self._add(self.pages)
        self._add(Loop(session, "gangs", self._guarded(self.gangs.turn), TURN_EVERY))
        self._add(Loop(session, "gang-polls", self.gangs.poll, POLL_EVERY))
        self._add(Loop(session, "ray", self.ray.turn, RAY_EVERY))
        self._thread("gang-asks", GangAsks(session, self.gangs).run)
        self._thread("ready", self._announce)

    def _pod_change(self, change: Change) -> None:
        self.world.pod_change(change)
        self.gangs.pod_change(change)

    def _remember(self) -> None:
        session = self.session
        session.connected_at = Cluster.objects.values_list("connected_at", flat=True).get(pk=session.cluster_id)
        self.writer.load_names()
        self.judge.start()
        self.cycle.book.load()

    def _add(self, loop: Loop) -> None:
        loop.start()
        self.threads.append(loop)

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, name=name, daemon=True)
        thread.start()
        self.threads.append(thread)

    def _guarded(self, turn: Callable[[], None]) -> Callable[[], None]:
        """A turn that gives its work back when the database is away, so the loop's next turn tries again."""

        def guarded() -> None:
            try:
                turn()
            except DATABASE_AWAY as error:
                self.session.complain(error)
                self.session.stop.wait(0.3)

        return guarded

    def _renew(self) -> None:
        """Keep the lease. A database that is away takes no lease from us; somebody else's epoch does."""
        session = self.session
        with contextlib.suppress(*DATABASE_AWAY):
            if not session.once(lambda: lease.renew(session.cluster_id, session.epoch, session.clock.now())):
                session.end("The lease is lost or the cluster was removed.")

    def _watch(self, resource: str, take: Callable[[Change], None]) -> None:
        """Streams for ever. A credential that cannot be used is a stated problem, and tried again."""
        session = self.session
        while not session.stopping():
            try:
                for change in self._changes(resource):
                    take(change)
            except PortError as error:
                text = str(error)
            except Exception:
                log.exception("the watch of %s ended", resource)
                text = f"The watch of {resource} ended for a reason that is in the observer's log."
            else:
                continue
            self.conditions.state(f"watch_{resource}", text, session.clock.now())
            session.stop.wait(READER_EVERY)

    def _changes(self, resource: str) -> Iterator[Change]:
        reader: ClusterReader = wiring.reader(self.session.cluster)
        stream = reader.watch_nodes if resource == "nodes" else reader.watch_pods
        return stream(self.session.stopping, self._heard)

    def _check_rights(self) -> None:
        """Rights that the watches do not need at once are missed when it is too late; so they are asked for."""
        try:
            missing = wiring.reader(self.session.cluster).check()
        except PortError:
            return  # the watches say it
        if missing:
            self.conditions.state("rights", " ".join(missing)[:500], self.session.clock.now())
        else:
            self.conditions.mend("rights")

    def _heard(self, state: WatchState) -> None:
        self.conditions.watch(state, self.session.clock.now())

    def _announce(self) -> None:
        """The ready file, once nodes are written and the push server listens; then the first round of scrapes."""
        session = self.session
        while not session.stopping():
            url = session.run_dir / f"observer-{session.name}.url"
            if self.writer.connected and self.front.loop is not None and url.exists():
                publish(session.run_dir / f"observer-{session.name}.ready", str(os.getpid()))
                break
            session.stop.wait(0.05)
        while not session.stopping():
            if self.scraper.round_done:
                garbage.set_aside()
                return
            session.stop.wait(1.0)

    def wait(self) -> None:
        """Until the session ends; then a short patience for the threads, and the lease is let go."""
        session = self.session
        session.stop.wait()
        log.info("observer of %s ends: %s", session.name, session.why or "asked to stop")
        for loop in self.threads:
            if isinstance(loop, Loop):
                loop.wake.set()
        self.ray.close()
        self.endings.close()
        deadline = session.clock.monotonic() + PATIENCE
        for thread in self.threads:
            thread.join(max(0.0, deadline - session.clock.monotonic()))
        for suffix in ("ready", "url"):
            withdraw(session.run_dir / f"observer-{session.name}.{suffix}")
        with contextlib.suppress(*DATABASE_AWAY):
            lease.release(session.cluster_id, session.epoch)
        connection.close()


def owner_name() -> str:
    return f"{socket.gethostname()[:60]}:{os.getpid()}:{secrets.token_hex(4)}"


def acquire(cluster: Cluster, clock: Clock, stop: threading.Event) -> int | None:
    """Wait as a standby until the lease is ours; None when asked to stop or when the cluster is gone."""
    owner, said = owner_name(), False
    while not stop.is_set():
        try:
            epoch = lease.take(cluster.pk, owner, clock.now())
            if epoch is not None:
                return epoch
            fresh = Cluster.objects.filter(pk=cluster.pk).values_list("observer", "removed_at").first()
            if fresh is None or fresh[1] is not None:
                return None
            if not said:
                log.info("standby for %s: %s holds the lease", cluster.name, fresh[0])
                said = True
        except DATABASE_AWAY as error:
            connection.close()
            log.warning("waiting for the database: %s", str(error).strip().splitlines()[0])
        stop.wait(STANDBY_EVERY)
    return None


def observe(
    cluster: Cluster, clock: Clock, run_dir: Path, interval: float, push: tuple[str, int], tls: Tls = PLAIN
) -> int:
    """Stand by, observe until told to stop; the exit code. A lost lease ends with 3, so that a supervisor restarts."""
    stop = threading.Event()
    asked: list[datetime] = []

    def ask(number: int, frame: FrameType | None) -> None:
        asked.append(clock.now())
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, ask)
    epoch = acquire(cluster, clock, stop)
    if epoch is None:
        return 0
    session = Session(clusters.reload(cluster), epoch, clock, run_dir, interval, stop=stop)
    log.info("observing %s in epoch %d", cluster.name, epoch)
    try:
        observer = Observer(session, *push, tls)
        observer.start()
        observer.wait()
    except Stopping:
        log.info("observer of %s ends: %s", session.name, session.why)
    return 0 if asked else 3
