"""Advances one step of one workflow per message.

Decides who may work on a workflow (the one message that carries its current version), runs the step's function, and
persists what came of it in one fenced transaction. Refuses to hold a transaction over a call to the outside, to sleep,
and to act twice: whatever is in doubt after a crash, the step observes before it acts.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime

from django.db import DatabaseError, transaction
from django.db.models import F, Q

from fleet.bus.outbox import later_waits, send
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import (
    approving,
    clock_back,
    deadlines,
    driver_word,
    grants,
    holding,
    intents,
    messages,
    persist,
    requester,
    seen_time,
)
from fleet.lifecycle.askers import VERB
from fleet.lifecycle.context import Context, PortsOf, Timing
from fleet.lifecycle.fence import LEASE, Stale, renew
from fleet.lifecycle.machine import AWAKE
from fleet.lifecycle.models import NodeLifecycle, Step, Workflow
from fleet.lifecycle.outcomes import Blocked, Failed, Outcome, Repair
from fleet.lifecycle.planner import mode_on
from fleet.lifecycle.playbooks import CLAIMS, HOLD
from fleet.lifecycle.steps import AHEAD, RUN, identity, repair
from fleet.lifecycle.steps import hold as holds
from fleet.policy.models import Claim
from fleet.ports.clock import Clock
from fleet.ports.errors import IdentityMismatch, PermanentError, PortError

log = logging.getLogger(__name__)


def claim_due(clock: Clock, limit: int = 500) -> list[tuple[int, int]]:
    """Take every workflow whose lease ran out or whose wait is over; send each its message after the commit.

    One that would sleep longer than anything ever does was put to sleep before the clock was set back: it is due.
    While messages that can wait have not been taken, no more of their kind are sent: they would be the same ones again.
    """
    now = clock.now()
    due_now = Q(wake_at__lte=now) | Q(wake_at__gt=now + clock_back.LONGEST)
    if later_waits():
        due_now &= ~Q(verb_now__in=messages.CAN_WAIT) | Q(verb_now=None)
    with transaction.atomic():
        due = list(
            Workflow.objects.annotate(verb_now=VERB)
            .filter(due_now, state__in=AWAKE)
            .order_by("wake_at")
            .select_for_update(skip_locked=True)
            .values_list("pk", "version", "verb_now")[:limit]
        )
        Workflow.objects.filter(pk__in=[pk for pk, *_ in due]).update(version=F("version") + 1, wake_at=now + LEASE)
    for task, what in messages.of((pk, version + 1, verb or "") for pk, version, verb in due):
        send(task, **what)
    return [(pk, version + 1) for pk, version, _ in due]


def hold(holds: Sequence[tuple[int, int]], ports_of: PortsOf, clock: Clock, timing: Timing) -> str:
    """Hold many nodes; what is not plain is advanced one by one. Returns how many were held together, for the log."""
    came = holding.run(holds, _may_run, ports_of, clock, timing)
    for task, what in messages.of(came.followed):
        send(task, **what)
    for workflow, step, error in came.broken:
        with suppress(Stale):
            persist.outcome(workflow, step, _unanswered(error), clock)
    done = came.done | {workflow.pk for workflow, *_ in came.broken}
    for pk, version in holds:
        if pk not in done:
            advance(pk, version, ports_of, clock, timing)
    for cluster_id in came.asking:  # a message of its own: the holds that were sent before come first
        send("tasks.answer", cluster_id=cluster_id)
    return f"{len(came.done)} of {len(holds)} together"


def advance(workflow_id: int, version: int, ports_of: PortsOf, clock: Clock, timing: Timing) -> str:
    """Run the current step once. Returns a word for the log: dropped, stale, or the outcome's kind."""
    workflow = (
        Workflow.objects.select_related("node__pool", "node__lifecycle", "cluster", "incident")
        .filter(pk=workflow_id, version=version, state__in=AWAKE)
        .first()
    )
    if workflow is None:
        return "dropped"
    try:
        _keep(workflow, clock.now())
        step = _step(workflow, clock.now())
        began = clock.now(), clock.monotonic()
        seen_time.arrive(step, began[0])
        lifecycle: NodeLifecycle = workflow.node.lifecycle
        outcome = _guarded(workflow, step, lifecycle, ports_of, clock, timing)
        seen_time.leave(step, outcome, began, (clock.now(), clock.monotonic()))
        followed = persist.outcome(workflow, step, outcome, clock)
    except Stale:
        return "stale"
    if isinstance(outcome, Repair | Failed):
        _name_ticket(workflow, step, lifecycle, ports_of, clock, timing)
    for task, what in messages.of([followed] if followed else ()):
        send(task, **what)
    if persist.frees_room(workflow, outcome):
        grants.run(workflow.cluster_id, clock)
    elif isinstance(outcome, Blocked) and outcome.code == grants.ASKING:
        grants.run(workflow.cluster_id, clock, asked=True)
    return type(outcome).__name__.lower()


def _keep(workflow: Workflow, now: datetime) -> None:
    """A message that waited long brings little of its lease along. Raises Stale where another has it."""
    if workflow.wake_at is not None and workflow.wake_at < now + LEASE / 2:
        renew(workflow, now)


def _name_ticket(
    workflow: Workflow, step: Step, lifecycle: NodeLifecycle, ports_of: PortsOf, clock: Clock, timing: Timing
) -> None:
    """Where a scheduler shows people why a node is held, the line names the ticket. It stands without that, too."""
    with suppress(PortError, Stale, intents.Stopped):
        ports = ports_of(workflow.cluster)
        if ports.shows_why:
            holds.tell(Context(workflow, step, lifecycle, workflow.incident, ports, clock, timing))


def _step(workflow: Workflow, now: datetime) -> Step:
    step, _ = Step.objects.get_or_create(
        workflow=workflow,
        index=workflow.step,
        attempt=workflow.attempt,
        defaults={"verb": workflow.verb, "started_at": now},
    )
    return step


def _guarded(
    workflow: Workflow, step: Step, lifecycle: NodeLifecycle, ports_of: PortsOf, clock: Clock, timing: Timing
) -> Outcome:
    """What comes before a step may run: mode, claim, lease of the cluster; then the step, with its errors.

    What a step looks at before it asks for its claim needs the ports, and takes nothing of its deadline.
    """
    early = driver_word.awaited(workflow, clock.now()) or _may_run(workflow.cluster, workflow, clock.now())
    # A ticket is open, and the node looks as if it had been taken back meanwhile; an abort exchanged the verb.
    people = step.state == "failed" and step.verb == workflow.verb
    asks = None if early or people else _asks(workflow)
    ahead = AHEAD.get(workflow.verb) if asks else None
    if ahead is None and not people:
        early = early or asks or deadlines.check(workflow, step, clock.now())
    if early is not None:
        return early
    try:
        ports = ports_of(workflow.cluster)
        if not ports.lease():
            return Blocked("other_installation", "Another installation of Muster holds this cluster's Lease.", 30)
        ctx = Context(workflow, step, lifecycle, workflow.incident, ports, clock, timing)
        if ahead is not None and asks is not None:
            return ahead(ctx) or asks
        return repair.look(ctx) if people else RUN[workflow.verb](ctx)
    except intents.Stopped as error:
        return Blocked(error.decision.code, error.decision.text, 300, error.decision.until)
    except identity.Departed as error:
        return identity.ended(workflow, lifecycle, error, clock.now())
    except IdentityMismatch as error:
        return Repair("identity_mismatch", str(error))
    except PortError as error:
        return _unanswered(error)
    except (Stale, DatabaseError):
        raise
    except Exception as error:  # a bug must be seen on the page, not only in a log, and must not spin
        log.exception("%s: %s failed", workflow.label, workflow.verb)
        return Blocked("internal_error", f"{type(error).__name__}: {error}", 30)


def _unanswered(error: PortError) -> Blocked:
    """A call that did not come to what was wanted: the step looks again after a while."""
    wait = 60.0 if isinstance(error, PermanentError) else float(getattr(error, "retry_after", None) or 3.0)
    return Blocked(error.code, str(error), wait)


def _may_run(cluster: Cluster, workflow: Workflow, now: datetime) -> Outcome | None:
    incident = workflow.incident
    if cluster.removed_at or mode_on(workflow.node, incident, cluster) == Mode.OBSERVE:
        limited = incident is not None and incident.mode == Mode.OBSERVE
        whose = f"The rule {incident.rule} is in mode" if incident and limited else "The mode is"
        return Blocked("mode", f"{whose} observe: nothing is written. Holds: manage.py holds list.", 300)
    kind = CLAIMS.get(workflow.verb)
    if kind and approving.lacking(workflow):
        approving.ask_again(workflow, now)
        return Blocked("approval", "The plan has changed since it was approved; it needs a new approval.", 300)
    if workflow.verb == HOLD and (said := requester.refusal(workflow.created_by, cluster, 1)):
        return Blocked(requester.CODE, said, 300)
    return None


def _asks(workflow: Workflow) -> Blocked | None:
    """The claim that its step needs and does not hold."""
    kind = CLAIMS.get(workflow.verb)
    if not kind or Claim.objects.filter(workflow_id=workflow.pk, kind=kind, released_at=None).exists():
        return None
    return Blocked(grants.ASKING, f"Asks for its share of the cap {kind}.", 0)
