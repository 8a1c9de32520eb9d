"""What the watches told, into rows, a few times a second.

Decides the batches: a few hundred nodes in one transaction, so that the fast lane never waits long for the lease's
row, and lifecycle follows in the same transaction. Refuses to lose a change: what could not be written goes back.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from fleet.health import detector_changes
from fleet.health import services as health
from fleet.inventory import aliases, clusters, selectors
from fleet.inventory import services as inventory
from fleet.lifecycle import services as lifecycle
from fleet.observer.session import Session
from fleet.observer.world import Pending, World
from fleet.ports.cluster import NodeSeen

log = logging.getLogger(__name__)
BATCH = 250
ALIASES_EVERY, CLUSTER_EVERY = 30.0, 5.0
SOURCES = (
    "kubeconfig", "context", "in_cluster", "targets_file", "slurm_url", "slurm_user", "slurm_token",
    "yunikorn_url", "yunikorn_ca",
)  # fmt: skip


@dataclass(slots=True)
class Writer:
    session: Session
    world: World
    aliases_changed: Callable[[], None]
    rebooted: Callable[[list[str]], None]
    heard: Callable[[Sequence[NodeSeen]], None] = lambda nodes: None  # told of nodes once they are written
    connected: bool = False
    written: int = 0
    _aliases_at: float = float("-inf")
    _renamed: bool = False  # names and aliases are to be read again
    _cluster_at: float = field(default=float("-inf"))

    def turn(self) -> None:
        """Write what is pending. On failure it is given back and the error goes on."""
        self._watch_registration()
        pending = self.world.take()
        if pending:
            try:
                self._write(pending)
            except BaseException:
                self.world.give_back(pending)
                raise
            self.heard(pending.nodes)
        if self.world.nodes_synced.is_set() and not self.connected:
            session = self.session
            session.connected_at = session.once(
                lambda: clusters.connected(session.cluster_id, session.epoch, session.clock.now())
            )
            self.connected = True
        if self.session.clock.monotonic() - self._aliases_at > ALIASES_EVERY:
            self.load_names()

    def _write(self, pending: Pending) -> None:
        batches = [pending.nodes[at : at + BATCH] for at in range(0, len(pending.nodes), BATCH)] or [[]]
        if pending.nodes or pending.names is not None:
            for number, batch in enumerate(batches, 1):
                names = pending.names if number == len(batches) else None
                self._nodes(batch, names, pending.deleted if number == len(batches) else ())
        elif pending.deleted:
            self._nodes([], None, pending.deleted)
        if self._renamed and self.world.nodes_synced.is_set():  # once for a first list, not once for each part of it
            self.load_names()
        loads = {self.session.node_ids[n]: load for n, load in pending.loads.items() if n in self.session.node_ids}
        session, told = self.session, list(loads.items())
        for at in range(0, len(told), BATCH):
            session.way.give()
            some = dict(told[at : at + BATCH])
            self.written += session.once(
                lambda some=some: inventory.set_workloads(session.cluster_id, some, session.epoch)  # type: ignore[misc]
            )

    def _nodes(self, batch: Sequence[NodeSeen], names: frozenset[str] | None, deleted: Sequence[str]) -> None:
        self.session.way.give()
        now = self.session.clock.now()
        result = self.session.once(lambda: self._store(batch, names, deleted, now))
        self.written += len(result.created) + len(result.changed) + len(result.gone)
        self._renamed |= bool(result.renamed or result.created)
        if result.rebooted or result.back:
            called = {pk: name for name, pk in result.ids.items()}
            self.rebooted([called[pk] for pk in (*result.rebooted, *result.back) if pk in called])

    def _store(
        self, batch: Sequence[NodeSeen], names: frozenset[str] | None, deleted: Sequence[str], now: datetime
    ) -> inventory.SyncResult:
        cluster, epoch = self.session.cluster, self.session.epoch
        with transaction.atomic():
            result = inventory.sync_nodes(cluster, batch, names, now, epoch)
            if deleted:
                result.gone += inventory.mark_gone(cluster.pk, deleted, now, epoch)
                result.renamed = True
            health.ensure_verdicts(cluster.pk, result.created, now)
            moved = {*result.created, *result.back, *result.regrouped}
            if moved:
                lifecycle.ensure_rows(cluster.pk, moved, moved & set(result.managed), now)
            if result.updated:
                detector_changes.note_versions(cluster.pk, result.updated, now)
            if result.uncordoned:
                lifecycle.person_uncordoned(cluster.pk, result.uncordoned, now)
            if result.gone:
                lifecycle.retire_nodes(cluster.pk, result.gone, now)
        return result

    def load_names(self) -> None:
        session = self.session
        session.know_nodes(session.once(lambda: selectors.node_ids(session.cluster_id)))
        table = session.once(lambda: aliases.load(session.cluster_id))
        self._aliases_at, self._renamed = session.clock.monotonic(), False
        if table != session.aliases:
            session.aliases = table
            self.aliases_changed()

    def _watch_registration(self) -> None:
        """A changed registration takes effect: another selector re-reads all nodes, another credential a restart."""
        session = self.session
        if session.clock.monotonic() - self._cluster_at < CLUSTER_EVERY:
            return
        fresh = session.once(lambda: clusters.reload(session.cluster))
        self._cluster_at = session.clock.monotonic()
        old, session.cluster = session.cluster, fresh
        if fresh.removed_at is not None:
            session.end("The cluster was removed.")
        elif any(getattr(old, key) != getattr(fresh, key) for key in SOURCES):
            session.end("The cluster's credential or list changed.")
        elif (old.selector, old.label_keys) != (fresh.selector, fresh.label_keys):
            self.world.touch_all()
