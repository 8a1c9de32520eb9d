"""Grants claims of caps to many workflows at once.

Decides, in one transaction that holds the fleet's scope lock, who of those that ask may go on: first those that are
furthest (a drained node serves nobody while it waits), then the oldest. Writes claims, wakes the granted, and gives
everybody else the reason, the numbers and the time. Refuses all new disruption while the kill switch is on, the
breaker is open, a freeze lasts, another owner is at work on the node or the mode is below `automate` (a workflow that
a person approved may run in `recommend`); what needs no claim (tests, soak, return) goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Q, QuerySet

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish, send
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import owners, tripping
from fleet.lifecycle.fence import LEASE
from fleet.lifecycle.machine import OUT_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import CLAIMS, HOLD
from fleet.lifecycle.watched import unwatched
from fleet.policy import selectors as policy
from fleet.policy import services as claims
from fleet.policy import windows
from fleet.policy.models import Claim
from fleet.policy.rules import ALLOWED, IN_FLIGHT, TAKE_OUT, CapRule, Decision, decide
from fleet.ports.clock import Clock

ASKING = "asking"  # blocked_code of a workflow that has not been answered yet
GUARD_CODES = (
    ASKING, "cap_hold", "cap_take_out", "cap_in_flight", "rate", "floor", "stopped", "breaker", "freeze", "window",
    "mode", "unmanaged", "unwatched",
)  # fmt: skip
REASK = timedelta(minutes=5)


def run(cluster_id: int, clock: Clock) -> int:
    """Answer everybody who asks in this cluster. Returns how many were granted; their messages follow the commit."""
    with transaction.atomic():
        if not _asking(cluster_id).exists():
            return 0
        claims.lock_fleet()
        now = clock.now()
        waiting = list(
            _asking(cluster_id)
            .select_related("node__pool", "incident")
            .order_by("-step", "created_at", "pk")
            .select_for_update(of=("self",))
        )
        granted = _answer(Cluster.objects.get(pk=cluster_id), waiting, now)
    for workflow in granted:
        send("tasks.advance", workflow_id=workflow.pk, version=workflow.version)
    return len(granted)


def _asking(cluster_id: int) -> QuerySet[Workflow]:
    """What a step itself found out about another owner wakes by itself; what was told here is asked anew here."""
    guarded = Q(blocked_code__in=GUARD_CODES) | Q(blocked_code=owners.CODE, wake_at=None)
    return Workflow.objects.filter(guarded, cluster_id=cluster_id, state=WorkflowState.BLOCKED)


@dataclass(slots=True)
class Guards:
    """All that a cluster's guards look at, read once. What was taken counts for who asks next."""

    closed: Decision | None  # keeps the whole cluster from any step at all
    halted: Decision | None
    times: Sequence[windows.Window]
    fleet: policy.Fleet
    caps: Sequence[CapRule]
    now: datetime

    @classmethod
    def read(cls, cluster: Cluster, now: datetime) -> Guards:
        caps = policy.caps_of(cluster.pk)
        if cluster.half_open:
            caps = [CapRule(TAKE_OUT, "cluster", 1, None), CapRule(IN_FLIGHT, "cluster", 1, None), *caps]
        halted, times = policy.halt(cluster.pk, now), policy.windows_of(cluster.pk)
        return cls(_closed(cluster, now), halted, times, policy.read_fleet(now, OUT_STATES), caps, now)

    def ask(self, workflow: Workflow) -> Decision:
        """May its step begin now?"""
        return self.closed or _decide(workflow, self.fleet, self.caps, self.halted, self.times, self.now)

    def take(self, workflow: Workflow) -> None:
        place = self.fleet.places.get(workflow.node_id)
        if workflow.verb in CLAIMS and place is not None:
            self.fleet.tally.add(CLAIMS[workflow.verb], place)
            if CLAIMS[workflow.verb] == IN_FLIGHT:
                self.fleet.tally.begin(place, self.now)


def _answer(cluster: Cluster, waiting: Sequence[Workflow], now: datetime) -> list[Workflow]:
    guards = Guards.read(cluster, now)
    guards.halted = guards.halted or tripping.look(cluster, waiting, now)
    granted, told = [], []
    for workflow in waiting:
        decision = guards.ask(workflow)
        if decision.allowed:
            guards.take(workflow)
            granted.append(workflow)
        elif (workflow.blocked_code, workflow.blocked_text) != (decision.code, decision.text) or _late(workflow, now):
            _tell(workflow, decision, now)
            told.append(workflow)
    _save(cluster, granted, told, now)
    return granted


def _closed(cluster: Cluster, now: datetime) -> Decision | None:
    """What keeps the whole cluster from any step at all."""
    if cluster.mode == Mode.OBSERVE or cluster.removed_at:
        return Decision("mode", "The mode is observe: nothing is written.", now + REASK)
    blind = unwatched(cluster.pk, now)
    return Decision("unwatched", blind, now + timedelta(seconds=15)) if blind else None


def _decide(
    workflow: Workflow,
    fleet: policy.Fleet,
    caps: Sequence[CapRule],
    halted: Decision | None,
    times: Sequence[windows.Window],
    now: datetime,
) -> Decision:
    """A step that needs no claim was kept only by the mode, which is open again."""
    if workflow.node.pool and workflow.node.pool.mode == Mode.OBSERVE:
        return Decision(
            "mode", f"The pool {workflow.node.pool.name} is in mode observe: nothing is written.", now + REASK
        )
    if workflow.verb not in CLAIMS:
        return ALLOWED
    other = owners.in_the_way(owners.of_row(workflow.node.owners))
    if other is not None:
        return Decision(owners.CODE, owners.waiting_for(other), now + REASK)
    if halted is not None:
        return halted
    place = fleet.places.get(workflow.node_id)
    if place is None:
        return Decision("unmanaged", "The node is not in the managed set.", now + REASK)
    if workflow.verb != HOLD:
        timely = windows.decide(times, workflow.node.pool.name if workflow.node.pool else "", _urgent(workflow), now)
        if not timely.allowed:
            return timely
    return decide(CLAIMS[workflow.verb], place, caps, fleet.tally, now)


def _urgent(workflow: Workflow) -> bool:
    return workflow.incident is not None and workflow.incident.severity == "unhealthy"


def _late(workflow: Workflow, now: datetime) -> bool:
    return workflow.blocked_until is not None and workflow.blocked_until <= now


def _tell(workflow: Workflow, decision: Decision, now: datetime) -> None:
    if workflow.blocked_code != decision.code:
        workflow.blocked_since = now
    workflow.blocked_code, workflow.blocked_text = decision.code, decision.text[:500]
    workflow.blocked_until = decision.until or now + REASK


def _save(cluster: Cluster, granted: list[Workflow], told: list[Workflow], now: datetime) -> None:
    claims.claim(
        Claim(cluster_id=cluster.pk, kind=CLAIMS[w.verb], node_id=w.node_id, workflow_id=w.pk, claimed_at=now)
        for w in granted
        if w.verb in CLAIMS
    )
    for workflow in granted:
        workflow.state, workflow.version, workflow.wake_at = WorkflowState.RUNNING, workflow.version + 1, now + LEASE
        workflow.blocked_code, workflow.blocked_text = "", ""
        workflow.blocked_since = workflow.blocked_until = None
        workflow.started_at = workflow.started_at or now
    fields = [
        "state",
        "version",
        "wake_at",
        "blocked_code",
        "blocked_text",
        "blocked_since",
        "blocked_until",
        "started_at",
    ]
    Workflow.objects.bulk_update([*granted, *told], fields, batch_size=500)
    changed = [*granted, *told]
    publish(cluster.pk, [Notice("workflow", str(w.pk), w.node.name) for w in changed], now)
    audit.record(
        audit.chain_of(cluster.pk),
        [
            audit.Entry(
                actor="muster:policy",
                action="claim.grant",
                object=f"workflow:{w.pk}",
                node=w.node.name,
                detail={"kind": CLAIMS.get(w.verb, ""), "verb": w.verb},
            )
            for w in granted
        ],
        now,
    )
