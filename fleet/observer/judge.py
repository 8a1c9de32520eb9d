"""From kernel lines and cycles to committed incidents and plans.

Decides what is committed together: the edges, the rules' memory of those nodes, the plans and the audit rows. Edges
wait in one queue until a commit has taken them, whichever thread found them, so a database that is away loses none.
Refuses to let the path of a fatal line wait for a cycle: only the two commits exclude each other, and a line's takes
what is queued of its own nodes, in its order, and leaves what a cycle found elsewhere to the cycle.

A series keeps its row for ever, because rules remember by row, and what they remember of one node must never be taken
for another's. So rows of nodes that left are not given to those that come: when they are a third of all, the observer
ends and begins anew from what is saved, as after any restart.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.conf import settings
from django.db import transaction

from fleet.audit import services as audit
from fleet.health import detector_changes
from fleet.health import services as health
from fleet.health.absences import Absences
from fleet.health.grey import watch as grey
from fleet.health.limits import LIMITS
from fleet.health.rules.engine import RuleEngine
from fleet.health.rules.types import ClusterView, Edge, NodeFacts, Verdict
from fleet.inventory import lease
from fleet.lifecycle import services as lifecycle
from fleet.lifecycle.withdrawing import withdraw
from fleet.observer import restore
from fleet.observer.company import Company
from fleet.observer.facts import FactsReader
from fleet.observer.rulesfile import RulesFile
from fleet.observer.ruleskept import RulesKept
from fleet.observer.session import DATABASE_AWAY, Session, Stopping
from fleet.telemetry.frame import Frame
from fleet.telemetry.healthevents import HealthEvent
from fleet.telemetry.kernellog import KernelLine

log = logging.getLogger(__name__)
BATCH = 100  # edges in one transaction: a fatal line waits for no more than that
OTHERS = 20  # nodes whose memory is saved in one commit though nothing was found on them
GONE_SHARE, GONE_ROWS = 3, 100_000  # one row in so many, and no fewer: a restart costs a round of cold scrapes
GONE_LOOK, GONE_PATIENCE = 60.0, 3600.0  # seconds between two looks, and before the first
Heard = KernelLine | HealthEvent


class Judge:
    def __init__(self, session: Session, frame: Frame) -> None:
        self.session, self.frame = session, frame
        self.engine = RuleEngine(frame)
        self.rules = RulesFile(settings.RULES_FILE, RulesKept(session))
        self.facts = FactsReader(frame, session.way.give)
        self.company = Company(session, frame)
        self.absences = Absences(self.engine.findings, LIMITS)
        self._queue: list[Edge] = []
        self._dirty: set[str] = set()
        self._queue_lock = threading.Lock()
        self._commit_lock = threading.Lock()
        self.opened = 0
        self.plans = 0
        self.edges = 0
        self._look_at = session.clock.monotonic() + GONE_PATIENCE

    def start(self) -> None:
        """Take back what was remembered, before the first line and the first cycle."""
        self._queue = restore.load(self.engine, self.session.cluster_id)
        self._queue += self.rules.look(self.engine, self.session.clock.now())
        self.read_facts()

    def read_facts(self) -> dict[str, NodeFacts]:
        now = self.session.clock.now()
        return self.facts.read(self.session.cluster_id, self.session.connected_at or now, now)

    def hear(self, lines: Sequence[tuple[str, Heard]]) -> None:
        """Judge lines and events of nodes already resolved. Nothing is written before `commit`."""
        now = self.session.clock.now()
        for node, line in lines:
            facts = self.facts.of.get(node)
            if facts is None:
                facts = self.read_facts().get(node)
            if facts is None:
                continue
            with self._queue_lock:
                if isinstance(line, HealthEvent):
                    self._queue += self.engine.on_event(line, facts, now)
                else:
                    self._queue += self.engine.on_kernel_line(line, facts, now)

    def cycle(self) -> dict[str, Verdict]:
        """All rules once; verdicts of every node. Nothing is written before `commit`."""
        clock = self.session.clock
        nodes = self.read_facts()
        self._renew(nodes)
        view = ClusterView(now=clock.now(), monotonic=clock.monotonic(), frame=self.frame, nodes=nodes)
        edges = self.rules.look(self.engine, view.now) + self.engine.cycle(view, self.session.way.give)
        self.session.way.give()
        verdicts = self.engine.verdicts(view)
        edges += self.absences.look(verdicts, nodes, view.now)
        with self._queue_lock:
            self._queue += edges
        return verdicts

    def _renew(self, nodes: dict[str, NodeFacts]) -> None:
        """End when too much of the frame is of nodes that left; see the module."""
        mono = self.session.clock.monotonic()
        if mono < self._look_at:
            return
        self._look_at = mono + GONE_LOOK
        gone = self.frame.rows_without(nodes)
        if gone >= GONE_ROWS and gone * GONE_SHARE >= self.frame.r.size:
            self.session.end(f"{gone} of {self.frame.r.size} series are of nodes that left; what is kept begins anew.")

    def suspect(self, edges: Sequence[Edge], over: Sequence[tuple[str, str]]) -> None:
        """Suspicions of grey failures, and those that did not hold. Nothing is written before `commit`."""
        now, findings = self.session.clock.now(), self.engine.findings
        for edge in edges:
            facts = self.facts.of.get(edge.node)
            if facts is not None:
                told = findings.observe(edge, facts, now, current=True)
                with self._queue_lock:
                    self._queue += told
        for node, device in over:
            told = findings.clear((node, device, grey.RULE), now, "like_its_peers")
            with self._queue_lock:
                self._queue += told

    def remember(self, nodes: set[str]) -> None:
        """Save the rules' memory of these nodes with the next commit."""
        with self._queue_lock:
            self._dirty |= nodes

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def commit(self) -> bool:
        """Write the next portion of what is queued; False when nothing is. What the database raises is raised; then
        all of it stays queued."""
        self.session.way.give()
        return self._commit(None)

    def commit_at_once(self, nodes: Collection[str]) -> bool:
        """The same of these nodes alone, for a line that somebody waits for."""
        return self._commit(nodes)

    def _commit(self, only: Collection[str] | None) -> bool:
        with self._commit_lock:
            batch, chosen = self._next(only)
            states = restore.export(self.engine, chosen)
            self.remember(chosen - states.keys())  # what the cycle is just changing
            if not batch and not states and not self.frame.versions.changed():
                return False
            try:
                self._write(batch, states)
            except (*DATABASE_AWAY, lease.LeaseLost, Stopping):
                self.remember(set(states))
                raise
            except Exception:
                log.exception("a batch of %d edges could not be stored; trying them one by one", len(batch))
                self._write_singly(batch)
            written = {id(edge) for edge in batch}
            with self._queue_lock:
                self._queue = [edge for edge in self._queue if id(edge) not in written]
            return True

    def _next(self, only: Collection[str] | None) -> tuple[list[Edge], set[str]]:
        """Edges to write now, in their order, and nodes whose memory is saved with them: theirs, and in a cycle's
        commit a few others."""
        with self._queue_lock:
            batch = [edge for edge in self._queue if only is None or edge.node in only][:BATCH]
            self._dirty |= self.engine.take_dirty(OTHERS if only is None else 0)
            chosen = self._dirty & {edge.node for edge in batch}
            if only is None:
                chosen |= set(itertools.islice(self._dirty - chosen, OTHERS))
            self._dirty -= chosen
            return batch, chosen

    def _write(self, batch: Sequence[Edge], states: dict[str, object]) -> None:
        session, now = self.session, self.session.clock.now()
        journal: list[audit.Entry] = []
        plans: list[int] = []
        became = self.frame.versions.changed()
        with transaction.atomic():
            folded: list[int] = []
            updated = [(self.facts.ids[node], what) for node, what in became if node in self.facts.ids]
            detector_changes.note_versions(session.cluster_id, updated, now)
            lately = detector_changes.lately(session.cluster_id, now)
            shape = replace(self.company.shape(), changed=lately.rules, updated=lately.nodes)
            ids = health.apply_edges(
                session.cluster_id, batch, self.facts.ids, session.epoch, now, journal, shape, folded
            )
            restore.save(session.cluster_id, states, self.facts.ids)
            if ids:
                plans = lifecycle.plan(session.cluster_id, ids, now, session.clock, journal)
            if folded:
                withdraw(folded, "Its fault is shared by many nodes; nothing is done to any one of them for it.", now)
            audit.record(audit.chain_of(session.cluster_id), journal, now)
        self.frame.versions.written(len(became))
        self.edges += len(batch)
        self.opened += len(ids)
        self.plans += len(plans)

    def _write_singly(self, batch: Sequence[Edge]) -> None:
        """One edge that no table takes must not hold up all others."""
        for edge in batch:
            try:
                self._write([edge], {})
            except (*DATABASE_AWAY, lease.LeaseLost):
                raise
            except Exception:
                log.exception("dropped an edge that cannot be stored: %s", edge)

    def settle(self) -> list[int]:
        """End what is over, plan what has settled; the incidents that ended."""
        self.session.way.give()
        return self.company.settle()
