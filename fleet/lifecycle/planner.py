"""From incidents to workflows.

Decides, for open incidents, which nodes get a workflow and in which state it begins: `planned` in observe mode (what
would be done), `waiting` in recommend mode, asking for its first claim in automate mode. Refuses a second open workflow
on a node, a node outside the managed set, a node that a person took back since, and to repeat for ever what did not
last: a cause that was mended three times within a day is a recurring case, which has a playbook of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Q

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health import selectors as health
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Mode, Node
from fleet.lifecycle import approving, bounces, driver_word, effectiveness, grants, ladder, owners, shelf, suspicions
from fleet.lifecycle.cases import case_of
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState, WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.playbooks import Plan, plan_for, remedy_index
from fleet.lifecycle.validation import selectors as tests
from fleet.policy import approvals
from fleet.ports.clock import Clock

RECURRING, RECURRING_WINDOW = 3, timedelta(hours=24)
MODE_ORDER = (Mode.OBSERVE, Mode.RECOMMEND, Mode.AUTOMATE)
FIRST_STATE = {
    Mode.OBSERVE: WorkflowState.PLANNED,
    Mode.RECOMMEND: WorkflowState.WAITING,
    Mode.AUTOMATE: WorkflowState.BLOCKED,
}


def effective_mode(cluster_mode: str, pool_mode: str | None, rule_mode: str | None = None) -> Mode:
    """The least of cluster, pool and rule; without a pool, or a rule as cause, they limit nothing."""
    modes = [Mode(cluster_mode), *(Mode(mode) for mode in (pool_mode, rule_mode) if mode)]
    return min(modes, key=MODE_ORDER.index)


def mode_on(node: Node, incident: Incident | None, cluster: Cluster | None = None) -> Mode:
    """How far a workflow of that incident may go on that node; a person's has none, and is limited by no rule."""
    own = (cluster or node.cluster).mode
    return effective_mode(own, node.pool.mode if node.pool else None, incident.mode if incident else None)


def _approval(incident: Incident) -> str:
    if incident.mode == Mode.RECOMMEND:
        return f"The rule {incident.rule} is in mode recommend: it waits for a person's approval."
    return "Waits for a person's approval."


def plan(
    cluster_id: int,
    incident_ids: Iterable[int],
    clock: Clock,
    by: str = "muster:observer",
    journal: list[audit.Entry] | None = None,
) -> list[int]:
    """Workflows for those incidents, in the caller's transaction; claims are asked for after its commit.

    With a `journal` the audit entries are appended to it: the caller has more to do, and the chain's lock comes last.
    """
    now = clock.now()
    cluster = Cluster.objects.get(pk=cluster_id)
    if cluster.removed_at:
        return []
    incident_ids = list(incident_ids)
    entries = suspicions.make_way(cluster_id, incident_ids, now, by)
    entries += bounces.find(incident_ids, now)
    entries += driver_word.exchange(incident_ids, now, by, _recurring)
    if cluster.mode != Mode.OBSERVE:
        entries += driver_word.ask_people(incident_ids, cluster_id, now)
    fresh = _fresh(cluster, _candidates(cluster_id, incident_ids, now), now)
    made = _create(fresh)
    if not made and not entries:
        return []
    approving.ask([w for w in made if w.state == WorkflowState.WAITING], approvals.RECOMMEND, now)
    publish(cluster_id, [Notice("workflow", str(w.pk), w.node.name) for w in made], now)
    told = [*entries, *(_entry(w, by) for w in made)]
    if journal is None:
        audit.record(audit.chain_of(cluster_id), told, now)
    else:
        journal += told
    if any(w.state == WorkflowState.BLOCKED for w in made):
        transaction.on_commit(lambda: _ask(cluster_id, clock), robust=True)
    return [w.pk for w in made]


def _ask(cluster_id: int, clock: Clock) -> None:
    grants.run(cluster_id, clock, asked=True)


def _candidates(cluster_id: int, incident_ids: Iterable[int], now: datetime) -> list[Incident]:
    """None that is muted or may turn out to be shared, and no more those that cleared but are kept open."""
    found = (
        Incident.objects.filter(
            Q(plan_after=None) | Q(plan_after__lte=now),
            Q(muted_until=None) | Q(muted_until__lte=now),
            pk__in=list(incident_ids),
            cluster_id=cluster_id,
            state=Incident.OPEN,
            node__managed=True,
            node__gone_at=None,
        )
        .exclude(node__workflows__state__in=OPEN_WORKFLOW_STATES)
        .exclude(pk__in=health.quiet_incidents(cluster_id))
        .select_related("node__pool", "node__cluster", "node__lifecycle")
        .order_by("detected_at", "pk")
    )
    return [incident for incident in found if _free(incident)]


def _free(incident: Incident) -> bool:
    """In service, or taken back by a person before this fault arose; and not about to be deleted. One that was left to
    be deleted, and is not any more, is as sick as before."""
    if incident.node is None or owners.departing(owners.of_row(incident.node.owners), incident.node.labels):
        return False
    row = incident.node.lifecycle
    if row.state in (NodeState.IN_SERVICE, NodeState.SUSPECT):
        return True
    if row.state != NodeState.RELEASED:
        return False
    return bool(incident.detected_at > row.since) or owners.left_for_a_deletion(row.reason)


def _fresh(cluster: Cluster, incidents: Sequence[Incident], now: datetime) -> list[Workflow]:
    repeated = _recurring(incidents, now)
    tested = tests.answered([i.node_id for i in incidents if i.node_id and i.action_class == "confirm"], now)
    planned = set(
        Workflow.objects.filter(
            node_id__in=[incident.node_id for incident in incidents], state=WorkflowState.PLANNED
        ).values_list("node_id", flat=True)
    )
    rows: dict[int, Workflow] = {}
    book = shelf.book()
    for incident in sorted(incidents, key=_less):  # what may go further must not wait behind what may not
        node = incident.node
        if node is None:
            continue
        mode = mode_on(node, incident, cluster)
        if node.pk in rows or (mode == Mode.OBSERVE and node.pk in planned) or (node.pk, incident.cause) in tested:
            continue
        chosen = plan_for(case_of(incident, node, recurring=(node.pk, incident.cause) in repeated), book)
        if chosen.playbook:
            rows[node.pk] = _row(incident, node, chosen, mode, now)
    _begin_by_effect(list(rows.values()), now)
    return list(rows.values())


def _less(incident: Incident) -> int:
    return -MODE_ORDER.index(Mode(incident.mode))


def _begin_by_effect(rows: Sequence[Workflow], now: datetime) -> None:
    """Begin on the gentlest rung that has not proved to be in vain for such faults."""
    climbing = [w for w in rows if (index := remedy_index(w.plan)) is not None and w.plan[index].get("ladder")]
    for workflow, effects in zip(climbing, effectiveness.effects_of(climbing, now), strict=True):
        planned = workflow.plan[remedy_index(workflow.plan) or 0]
        planned["verb"] = ladder.first_rung(planned["ladder"], effects)


def _row(incident: Incident, node: Node, chosen: Plan, mode: Mode, now: datetime) -> Workflow:
    waits = mode == Mode.RECOMMEND or (mode == Mode.AUTOMATE and suspicions.waits_for_a_word(chosen, node))
    asking = mode == Mode.AUTOMATE and not waits
    return Workflow(
        cluster_id=incident.cluster_id,
        node=node,
        incident=incident,
        playbook=chosen.playbook,
        plan=chosen.as_json(),
        attempts=chosen.attempts,
        needs_approval=waits,
        state=WorkflowState.WAITING if waits else FIRST_STATE[mode],
        node_uid=node.uid,
        created_at=now,
        blocked_code=grants.ASKING if asking else "approval" if waits else "",
        blocked_text="Asks for its share of the cap hold." if asking else _approval(incident) if waits else "",
        blocked_since=now if asking or waits else None,
        blocked_until=now + timedelta(seconds=15) if asking else None,
    )


def _recurring(incidents: Sequence[Incident], now: datetime) -> set[tuple[int, str]]:
    """(node, cause) pairs whose remediation succeeded RECURRING times in the window: it does not last."""
    counts: dict[tuple[int, str], int] = {}
    done = Workflow.objects.filter(
        node_id__in=[incident.node_id for incident in incidents],
        state=WorkflowState.SUCCEEDED,
        ended_at__gte=now - RECURRING_WINDOW,
    ).values_list("node_id", "incident__cause")
    for key in done:
        counts[key] = counts.get(key, 0) + 1
    return {key for key, count in counts.items() if count >= RECURRING}


def _create(rows: list[Workflow]) -> list[Workflow]:
    """All at once; if somebody made one meanwhile, one by one and without those."""
    try:
        with transaction.atomic():
            return Workflow.objects.bulk_create(rows)
    except IntegrityError:
        made = []
        for row in rows:
            try:
                with transaction.atomic():
                    row.save(force_insert=True)
                made.append(row)
            except IntegrityError:
                continue
        return made


def _entry(workflow: Workflow, by: str) -> audit.Entry:
    detail = {
        "incident": workflow.incident_id,
        "playbook": workflow.playbook,
        "state": workflow.state,
        "verbs": [item["verb"] for item in workflow.plan],
    }
    return audit.Entry(
        actor=by, action="workflow.plan", object=f"workflow:{workflow.pk}", node=workflow.node.name, detail=detail
    )


def replan(cluster_id: int, clock: Clock, by: str) -> list[int]:
    """Plan for every open incident that has nothing under way: after a raised mode, and as the tick's safety net.

    Under the lock that the observer's writes hold, so that the two never plan for one node at the same moment.
    """
    with transaction.atomic():
        Cluster.objects.select_for_update(no_key=True).get(pk=cluster_id)
        ids = Incident.objects.filter(cluster_id=cluster_id, state=Incident.OPEN).values_list("pk", flat=True)
        return plan(cluster_id, list(ids), clock, by)
