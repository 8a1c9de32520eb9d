"""One full pass: list, scrape, judge, write, tell.

Decides that a pass takes the lease like an observer does and gives it back. Refuses to run beside one: two writers
would only fence each other out.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from fleet import wiring
from fleet.inventory import clusters, lease
from fleet.inventory.models import Cluster, MetricsSource
from fleet.observer.conditions import Conditions
from fleet.observer.cycle import Cycle
from fleet.observer.fabric import Fabric
from fleet.observer.judge import Judge
from fleet.observer.keeping import Keeper
from fleet.observer.process import owner_name
from fleet.observer.push import Refusals
from fleet.observer.querying import Announced, Querier, rule_reads
from fleet.observer.scraping import Scraper
from fleet.observer.session import Session
from fleet.observer.targetlist import TargetList
from fleet.observer.world import World
from fleet.observer.writer import Writer
from fleet.ports.clock import Clock
from fleet.ports.cluster import Change, WatchState
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.intake import Intake
from fleet.telemetry.series import AMBIGUOUS, Ambiguous


class Busy(Exception):
    """An observer holds the lease."""


def one_pass(cluster: Cluster, clock: Clock, run_dir: Path, interval: float) -> dict[str, Any]:
    """Nodes, pods, one scrape of each exporter, one cycle; what came of it."""
    began = clock.monotonic()
    epoch = lease.take(cluster.pk, owner_name(), clock.now(), 10 * lease.TTL)
    if epoch is None:
        raise Busy(f"Another observer holds the lease of {cluster.name}.")
    session = Session(clusters.reload(cluster), epoch, clock, run_dir, interval)
    try:
        return {"cluster": cluster.name, **_pass(session), "seconds": round(clock.monotonic() - began, 2)}
    finally:
        lease.release(cluster.pk, epoch)


def _pass(session: Session) -> dict[str, Any]:
    frame, world = Frame(), World()
    judge = Judge(session, frame)

    def resolve(name: str) -> str | Ambiguous | None:
        match = session.aliases.resolve(name)
        if match.miss == "ambiguous_node":
            return AMBIGUOUS
        return session.names.get(match.node_id) if match.node_id is not None else None

    intake = Intake(frame, resolve)
    queried = session.cluster.metrics_source == MetricsSource.QUERY
    conditions, refusals = Conditions(list(session.cluster.conditions)), Refusals()
    listed = TargetList(session, conditions, resolve)
    announced = dict if queried else world.exporters
    scraper = Scraper(session, intake, lambda: {**announced(), **listed.exporters()}, lambda: 0, lambda: True)
    cycle = Cycle(session, frame, judge, scraper, conditions)
    gleaner = Gleaner(frame, resolve, session.interval)
    querier = Querier(
        session, gleaner, conditions, refusals, lambda: wiring.metrics(session.cluster),
        Announced(world, listed.any_exporters), rule_reads(),
    )  # fmt: skip
    writer = Writer(session, world, lambda: None, lambda nodes: None)
    session.connected_at = session.cluster.connected_at
    writer.load_names()
    judge.start()
    cycle.book.load()
    _list(session, world)
    writer.turn()
    listed.look()
    asyncio.run(scraper.once())
    asyncio.run(Fabric(session, frame, listed, conditions, refusals, wiring.fabric).once())
    if querier.wanted():
        asyncio.run(_ask(querier))
    cycle.turn()
    keeper = Keeper(session, frame, intake, refusals, judge.remember)
    keeper.parts()
    judge.commit()
    keeper.count_refusals()
    nodes, pods = world.counts()
    return {
        "nodes": nodes,
        "pods": pods,
        "targets": scraper.total(),
        "scraped": scraper.counts["scraped"],
        "queries": querier.counts["queries"],
        "samples": scraper.counts["samples"] + querier.counts["samples"],
        "signals": judge.edges,
        "incidents": judge.opened,
        "plans": judge.plans,
    }


async def _ask(querier: Querier) -> None:
    await querier.once()


def _list(session: Session, world: World) -> None:
    """Each stream up to its first full list."""
    reader = wiring.reader(session.cluster)

    def unconnected(state: WatchState) -> None:
        if not state.connected and state.code != "listing":
            raise Busy(state.text)

    for stream, take in ((reader.watch_nodes, world.node_change), (reader.watch_pods, world.pod_change)):
        done: list[Change] = []
        for change in stream(lambda done=done: bool(done), unconnected):  # type: ignore[misc]
            take(change)
            if change.kind == "synced":
                done.append(change)
                break
