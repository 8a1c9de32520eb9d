"""Grants claims of caps to many workflows at once.

Decides, in one transaction that holds the fleet's scope lock, who of those that ask may go on: first those that are
furthest (a drained node serves nobody while it waits), then the oldest. Writes claims, wakes the granted, and gives
everybody else the reason, the numbers and the time. Refuses all new disruption while the kill switch is on, the
breaker is open, a freeze lasts, another owner is at work on the node or the mode is below `automate` (a workflow that
a person approved may run in `recommend`); what needs no claim (tests, soak, return) goes on.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Coalesce

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish, send
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import askers, messages, owners, tripping, unused
from fleet.lifecycle.askers import Asker
from fleet.lifecycle.fence import LEASE
from fleet.lifecycle.machine import OUT_STATES, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import CLAIMS, HOLD
from fleet.lifecycle.watched import unwatched
from fleet.policy import selectors as policy
from fleet.policy import services as claims
from fleet.policy import windows
from fleet.policy.models import Claim
from fleet.policy.rules import ALLOWED, IN_FLIGHT, TAKE_OUT, CapRule, Decision, Place, decide, free
from fleet.ports.clock import Clock

GOES_ON = frozenset({"mode", "unwatched"})
"""What may have kept a step that had its share already."""
ASKING = "asking"  # blocked_code of a workflow that has not been answered yet
GUARD_CODES = (
    ASKING, "cap_hold", "cap_take_out", "cap_in_flight", "rate", "floor", "stopped", "breaker", "freeze", "window",
    "mode", "unmanaged", "unwatched",
)  # fmt: skip
REASK = timedelta(minutes=5)
TEXT = 500  # characters of a reason
TOLD_AGAIN = timedelta(minutes=1)
"""A reason that stays the same is told anew for so long at least: a thousand that wait are a thousand rows."""


ROUNDS = 3


def run(cluster_id: int, clock: Clock, *, asked: bool = False) -> int:
    """Answer everybody who asks in this cluster. Returns how many were granted; their messages follow the commit.

    With `asked` only if somebody has not been answered yet and nobody else answers just now: a worker's thread that
    waited for the lock could evict nobody meanwhile. Who answers looks once more when it has let go of the lock, so
    that whoever found it taken need not wait for the next tick.
    """
    count = 0
    for _ in range(ROUNDS):
        granted = _round(cluster_id, clock, asked)
        for task, what in messages.of((w.pk, w.version, w.verb) for w in granted or ()):
            send(task, **what)
        count += len(granted or ())
        if granted is None or not _asking(cluster_id, unanswered=True).exists():
            break
        asked = True
    return count


@transaction.atomic
def _round(cluster_id: int, clock: Clock, asked: bool) -> list[Workflow] | None:
    """Those that were granted; None when there was nobody to answer, or somebody else answers."""
    if not _asking(cluster_id, asked).exists():
        return None
    if not claims.lock_fleet(wait=not asked) or not _asking(cluster_id, asked).exists():
        return None
    return _answer(Cluster.objects.get(pk=cluster_id), askers.read(_asking(cluster_id)), clock.now())


def asks(kind: str, now: datetime) -> dict[str, Any]:
    """What a row says whose step asks for a claim of `kind`."""
    return {
        "state": WorkflowState.BLOCKED,
        "blocked_code": ASKING,
        "blocked_text": f"Asks for its share of the cap {kind}.",
        "blocked_since": now,
        "blocked_until": now + timedelta(seconds=1),
    }


def _asking(cluster_id: int, unanswered: bool = False) -> QuerySet[Workflow]:
    """What a step itself found out about another owner wakes by itself; what was told here is asked anew here."""
    guarded = Q(blocked_code__in=GUARD_CODES) | Q(blocked_code=owners.CODE, wake_at=None)
    if unanswered:
        guarded = Q(blocked_code=ASKING)
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

    def ask(self, asker: Asker) -> Decision:
        """May its step begin now?"""
        return self.closed or _decide(asker, self.fleet, self.caps, self.halted, self.times, self.now)

    def take(self, node_id: int, verb: str) -> None:
        place = self.fleet.places.get(node_id)
        if verb in CLAIMS and place is not None:
            self.fleet.tally.add(CLAIMS[verb], place)
            if CLAIMS[verb] == IN_FLIGHT:
                self.fleet.tally.begin(place, self.now)


def _answer(cluster: Cluster, waiting: Sequence[Asker], now: datetime) -> list[Workflow]:
    guards = Guards.read(cluster, now)
    guards.halted = guards.halted or tripping.look(cluster, waiting, now)
    answers: dict[int, tuple[Asker, Decision]] = {}
    for asker in waiting:
        decision = guards.ask(asker)
        if decision.allowed:
            guards.take(asker.node_id, asker.verb)
        elif (asker.code, asker.text) == (decision.code, decision.text[:TEXT]) and not _late(asker, now):
            continue
        answers[asker.pk] = asker, decision
    rows = _locked(answers)
    granted = [row for row in rows if answers[row.pk][1].allowed]
    told = [row for row in rows if not answers[row.pk][1].allowed]
    for workflow in told:
        _tell(workflow, answers[workflow.pk][1], now)
    waits = [workflow.pk for workflow in told if CLAIMS.get(answers[workflow.pk][0].verb) == IN_FLIGHT]
    if waits:
        unused.give_back(waits, now)
    _save(cluster, granted, told, guards.fleet.places, now)
    return granted


def _locked(answers: Mapping[int, tuple[Asker, Decision]]) -> list[Workflow]:
    """Those that still ask what was answered, in line. Who moved on meanwhile asks again if it must."""
    rows = Workflow.objects.select_for_update(of=("self",)).select_related("node").order_by("pk")
    found = {row.pk: row for row in rows.filter(pk__in=list(answers), state=WorkflowState.BLOCKED)}
    return [found[pk] for pk, (asker, _) in answers.items() if pk in found and asker.is_still(found[pk])]


def _closed(cluster: Cluster, now: datetime) -> Decision | None:
    """What keeps the whole cluster from any step at all."""
    if cluster.mode == Mode.OBSERVE or cluster.removed_at:
        return Decision("mode", "The mode is observe: nothing is written.", now + REASK)
    blind = unwatched(cluster.pk, now)
    return Decision("unwatched", blind, now + timedelta(seconds=15)) if blind else None


def _decide(
    asker: Asker,
    fleet: policy.Fleet,
    caps: Sequence[CapRule],
    halted: Decision | None,
    times: Sequence[windows.Window],
    now: datetime,
) -> Decision:
    """A step that needs no claim was kept only by the mode, which is open again.

    One whose verb is under way has its share: it looks at what came of it, and asks anew before it acts again.
    """
    if asker.pool_mode == Mode.OBSERVE:
        return Decision("mode", f"The pool {asker.pool} is in mode observe: nothing is written.", now + REASK)
    if asker.only_looks:
        return Decision("mode", f"The rule {asker.only_looks} is in mode observe: nothing is written.", now + REASK)
    if asker.verb not in CLAIMS:
        return ALLOWED
    other = owners.in_the_way(owners.of_row(asker.owners))
    if other is not None:
        return Decision(owners.CODE, owners.waiting_for(other), now + REASK)
    if halted is not None:
        return halted
    place = fleet.places.get(asker.node_id)
    if place is None:
        return Decision("unmanaged", "The node is not in the managed set.", now + REASK)
    if asker.verb != HOLD:
        timely = windows.decide(times, asker.pool, asker.urgent, now)
        if not timely.allowed:
            return timely
    if asker.under_way and asker.code in GOES_ON:
        return ALLOWED
    return decide(CLAIMS[asker.verb], place, caps, fleet.tally, now)


def _late(asker: Asker, now: datetime) -> bool:
    return asker.until is not None and asker.until <= now


def _tell(workflow: Workflow, decision: Decision, now: datetime) -> None:
    text, until = decision.text[:TEXT], decision.until or now + REASK
    if workflow.blocked_code != decision.code:
        workflow.blocked_since = now
    elif workflow.blocked_text == text:
        until = max(until, now + TOLD_AGAIN)
    workflow.blocked_code, workflow.blocked_text, workflow.blocked_until = decision.code, text, until


def _save(
    cluster: Cluster, granted: list[Workflow], told: list[Workflow], places: Mapping[int, Place], now: datetime
) -> None:
    claims.claim(
        Claim(
            cluster_id=cluster.pk, kind=CLAIMS[w.verb], node_id=w.node_id, workflow_id=w.pk, claimed_at=now,
            cost=0 if free(CLAIMS[w.verb], places[w.node_id]) else 1,
        )
        for w in granted
        if w.verb in CLAIMS
    )  # fmt: skip
    _wake(granted, now)
    _keep(told)
    publish(cluster.pk, [Notice("workflow", str(w.pk), w.node.name) for w in (*granted, *told)], now)
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


def _wake(granted: Sequence[Workflow], now: datetime) -> None:
    """All of them by one statement; their rows are locked."""
    Workflow.objects.filter(pk__in=[w.pk for w in granted]).update(
        state=WorkflowState.RUNNING, version=F("version") + 1, wake_at=now + LEASE, blocked_code="", blocked_text="",
        blocked_since=None, blocked_until=None, started_at=Coalesce("started_at", now),
    )  # fmt: skip
    for workflow in granted:
        workflow.version += 1


def _keep(told: Iterable[Workflow]) -> None:
    """One statement for all who are told the same."""
    alike: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for w in told:
        alike[w.blocked_code, w.blocked_text, w.blocked_since, w.blocked_until].append(w.pk)
    for (code, text, since, until), pks in alike.items():
        fields = {"blocked_code": code, "blocked_text": text, "blocked_since": since, "blocked_until": until}
        Workflow.objects.filter(pk__in=pks).update(**fields)
