"""What faults have in common: the observer's side of shared incidents.

Decides when a fault that could have been shared is planned for its node after all, when what is left of a shared one
is the nodes' own, and when a flapping one may end. Refuses to plan for what has cleared meanwhile.
"""

from __future__ import annotations

from collections import Counter

from django.db import transaction

from fleet.audit import services as audit
from fleet.health import selectors as health_selectors
from fleet.health import services as health
from fleet.health import sharing
from fleet.health.correlation_shared import Shape
from fleet.health.limits import LIMITS
from fleet.inventory import lease
from fleet.lifecycle import services as lifecycle
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES
from fleet.lifecycle.models import Workflow
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame


class Company:
    def __init__(self, session: Session, frame: Frame) -> None:
        self._session, self._frame = session, frame
        self._counted = 0
        self._mounts: set[tuple[str, str]] = set()  # node and server
        self._mounters: Counter[str] = Counter()

    def shape(self) -> Shape:
        """How many nodes there are, and how many mount from each server; only devices that are new are looked at."""
        fresh = self._frame.devices[self._counted :]
        if fresh:
            self._counted += len(fresh)
            pairs = {(d.node, d.attrs["server"]) for d in fresh if d.kind == "mount" and d.attrs.get("server")}
            self._mounters.update(server for _, server in pairs - self._mounts)
            self._mounts |= pairs
        return Shape(len(self._session.node_ids), self._mounters)

    def settle(self) -> list[int]:
        """Everything that is due; the incidents that ended."""
        self._dissolve()
        self._plan_due()
        return self._resolve()

    def _dissolve(self) -> None:
        session, now = self._session, self._session.clock.now()
        if not health_selectors.open_incidents(session.cluster_id).filter(node=None).exists():
            return
        with transaction.atomic():
            lease.guard(session.cluster_id, session.epoch)
            ids, entries = sharing.dissolve(session.cluster_id, self.shape(), LIMITS, now)
            if ids:
                lifecycle.plan(session.cluster_id, ids, now, session.clock)
            if entries:
                audit.record(audit.chain_of(session.cluster_id), entries, now)

    def _plan_due(self) -> None:
        """Faults that have settled and that nothing shared explained."""
        session, now = self._session, self._session.clock.now()
        due = health_selectors.open_incidents(session.cluster_id).filter(plan_after__lte=now)
        if not due.exists():
            return
        with transaction.atomic():
            lease.guard(session.cluster_id, session.epoch)
            ids = list(due.select_for_update().order_by("id").values_list("id", flat=True))
            health.settled(ids)
            lifecycle.plan(session.cluster_id, ids, now, session.clock)

    def _resolve(self) -> list[int]:
        """Incidents whose signals are all cleared and that no workflow works on (a workflow ends its own)."""
        session, now = self._session, self._session.clock.now()
        quiet = health_selectors.quiet_incidents(session.cluster_id)
        if not quiet:
            return []
        busy = Workflow.objects.filter(incident_id__in=quiet, state__in=OPEN_WORKFLOW_STATES)
        free = sorted(set(quiet) - set(busy.values_list("incident_id", flat=True)))
        if not free:
            return []
        with transaction.atomic():
            lease.guard(session.cluster_id, session.epoch)
            calm = health.calm(free, now)
            return health.resolve_incidents(calm, "The fault is over: all its signals cleared.", now) if calm else []
