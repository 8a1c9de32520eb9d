"""Holds of many nodes by one message.

Decides that nodes whose holds were granted together are held together: read side by side, their intents written in one
transaction, patched side by side, and what came of it recorded in another. What holds for one hold holds for each of
these: the intent is committed before the patch, the fence is looked at again before each round of patches, every row
is compared with the version that the message carried. Refuses whatever is not plain: a hold that was begun before, a
node that is not as expected, an answer that is not a yes go on one by one, by `steps.hold`.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import Any, TypeVar

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef

from fleet.audit import services as audit
from fleet.inventory import selectors as inventory
from fleet.inventory.models import Cluster
from fleet.inventory.owners import of_requests, on_node
from fleet.lifecycle import deadlines, fence, grants, intents, owners, persist
from fleet.lifecycle.context import Ports, PortsOf, Timing
from fleet.lifecycle.machine import AWAKE, IllegalEdge, NodeState
from fleet.lifecycle.models import Intent, Step, Workflow
from fleet.lifecycle.outcomes import Outcome
from fleet.lifecycle.playbooks import CLAIMS, DRAIN, HOLD, PlannedStep
from fleet.lifecycle.steps import hold, interrupting
from fleet.policy.models import Claim
from fleet.ports.clock import Clock
from fleet.ports.cluster import HOLD_ANNOTATION, HoldRequest, NodeSeen, RequestSeen
from fleet.ports.errors import Conflict, PortError

THREADS = 32
Message = tuple[int, int]
Answer = TypeVar("Answer")
Asked = TypeVar("Asked")


@dataclass(slots=True)
class Holding:
    """One hold under way."""

    workflow: Workflow
    seen: NodeSeen
    step: Step
    intent: Intent
    why: str = ""  # for people, where the scheduler shows it


@dataclass(slots=True)
class Came:
    """`done` are no longer this message's, `followed` go on with their next step, `asking` are clusters
    in which others wait for the claim of theirs; `broken` have an intent whose call came to no clear answer."""

    done: set[int] = field(default_factory=set)
    followed: list[tuple[int, int, str]] = field(default_factory=list)
    asking: set[int] = field(default_factory=set)
    broken: list[tuple[Workflow, Step, PortError]] = field(default_factory=list)


def run(
    holds: Sequence[Message],
    may_run: Callable[[Cluster, Workflow, datetime], Outcome | None],
    ports_of: PortsOf,
    clock: Clock,
    timing: Timing,
) -> Came:
    """Hold what is plain. Whoever is neither done nor broken is advanced by itself."""
    came = Came()
    clusters: dict[int, list[Workflow]] = defaultdict(list)
    now = clock.now()
    for workflow in _plain(dict(holds)):
        if may_run(workflow.cluster, workflow, now) is None:
            clusters[workflow.cluster_id].append(workflow)
    for workflows in clusters.values():
        _of_cluster(workflows, came, ports_of, clock, timing)
    return came


def _plain(versions: dict[int, int]) -> list[Workflow]:
    """Those that are at their hold, have a claim with room for it and were not begun before, in the order of the
    message. A hold that cost nothing is looked at by itself: its node may be back."""
    claim = Claim.objects.filter(workflow_id=OuterRef("pk"), kind=CLAIMS[HOLD], released_at=None, cost__gt=0)
    begun = Step.objects.filter(workflow=OuterRef("pk"), index=OuterRef("step"), attempt=OuterRef("attempt"))
    rows = Workflow.objects.filter(Exists(claim), ~Exists(begun), pk__in=versions, state__in=AWAKE)
    found = {w.pk: w for w in rows.select_related("node__pool", "node__lifecycle", "cluster", "incident")}
    return [
        found[pk]
        for pk, version in versions.items()
        if pk in found
        and (found[pk].version, found[pk].verb) == (version, HOLD)
        and found[pk].node.lifecycle.state in hold.FROM
    ]


def _of_cluster(workflows: Sequence[Workflow], came: Came, ports_of: PortsOf, clock: Clock, timing: Timing) -> None:
    try:
        ports = ports_of(workflows[0].cluster)
        if not ports.lease():
            return
    except PortError:
        return
    seen = _look(workflows, ports, clock.now(), timing.holds_at_once)
    try:
        begun = _begin([(w, seen[w.pk]) for w in workflows if w.pk in seen], came, clock.now())
    except IntegrityError:  # the same message is at work elsewhere: one by one, by what is observed
        return
    held: list[Holding] = []
    width = max(1, timing.holds_at_once)
    for start in range(0, len(begun), width):
        wave = begun[start : start + width]
        if start or intents.late(wave[0].intent, clock.now(), fence.LEASE.total_seconds() / 2):
            wave = _still_ours(wave, begun[start:], came, clock.now())
        held += _patch(wave, came, ports, clock, width)
    _record(held, came, clock.now())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(THREADS, thread_name_prefix="hold")


def _side_by_side(call: Callable[[Asked], Answer], rows: Sequence[Asked], width: int) -> list[Answer]:
    if width <= 1 or len(rows) <= 1:
        return [call(row) for row in rows]
    return list(_pool().map(call, rows))


# -- look ---------------------------------------------------------------------------------------------------------


def _look(workflows: Sequence[Workflow], ports: Ports, now: datetime, width: int) -> dict[int, NodeSeen]:
    """The nodes as they are now, of those that may be held as they stand."""

    def read(workflow: Workflow) -> tuple[NodeSeen, list[RequestSeen]] | None:
        try:
            node = ports.reader.node(workflow.node.name)
            return node, list(ports.reader.requests_on(node.name))
        except PortError:
            return None

    found: dict[int, NodeSeen] = {}
    unready: list[Workflow] = []
    for workflow, answer in zip(workflows, _side_by_side(read, workflows, width), strict=True):
        if answer is None or not _as_expected(workflow, *answer, now):
            continue
        found[workflow.pk] = answer[0]
        if answer[0].ready is not True:
            unready.append(workflow)
    if unready:
        heirs = inventory.successors(unready[0].cluster_id, {w.node_id: w.created_at for w in unready})
        found = {pk: node for pk, node in found.items() if pk not in {w.pk for w in unready if w.node_id in heirs}}
    return found


def _as_expected(workflow: Workflow, node: NodeSeen, asked: Iterable[RequestSeen], now: datetime) -> bool:
    """The pinned machine, with nobody's hold upon it, nobody else at work, and not about to leave."""
    if (workflow.node_uid and node.uid != workflow.node_uid) or node.annotations.get(HOLD_ANNOTATION):
        return False
    marks = on_node(node)
    return not (
        owners.departing(marks, node.labels) or owners.in_the_way(marks) or owners.in_the_way(of_requests(asked, now))
    )


# -- write down, act, record --------------------------------------------------------------------------------------


@transaction.atomic
def _begin(rows: Sequence[tuple[Workflow, NodeSeen]], came: Came, now: datetime) -> list[Holding]:
    """Steps and intents of those that are still ours; the others are somebody else's by now."""
    if not rows:
        return []
    current = fence.lock_current(workflow for workflow, _ in rows)
    came.done |= {workflow.pk for workflow, _ in rows} - current
    begun = [_holding(workflow, node, now) for workflow, node in rows if workflow.pk in current]
    Step.objects.bulk_create(row.step for row in begun)
    Intent.objects.bulk_create(row.intent for row in begun)
    Workflow.objects.bulk_update((row.workflow for row in begun), ["hold_value", "wake_at"])
    fence.tell([row.workflow for row in begun], [intents.entry(row.intent) for row in begun], now)
    return begun


def _holding(workflow: Workflow, node: NodeSeen, now: datetime) -> Holding:
    op_id = uuid.uuid4()
    workflow.hold_value = hold.value_of(workflow, op_id)
    workflow.wake_at = now + fence.LEASE
    bound = deadlines.of(PlannedStep.of(workflow.plan[workflow.step]))
    step = Step(
        workflow=workflow, index=workflow.step, attempt=workflow.attempt, verb=HOLD, started_at=now,
        deadline=now + timedelta(seconds=bound[0]) if bound else None, memo={"foreign": node.unschedulable},
    )  # fmt: skip
    intent = intents.of(workflow, step, HOLD, node.name, now, op_id=op_id)
    return Holding(workflow, node, step, intent, workflow.incident.title if workflow.incident else workflow.reason)


def _still_ours(wave: Sequence[Holding], left: Sequence[Holding], came: Came, now: datetime) -> list[Holding]:
    """The fence once more, and the lease anew for all that are left: the rounds before this one took their time."""
    current = fence.renew_all([row.workflow for row in left], now)
    came.done |= {row.workflow.pk for row in left} - current
    gone = [row.intent.pk for row in wave if row.workflow.pk not in current]
    intents.resolve_all(gone, intents.REFUSED, "Not sent: the workflow moved on.", now)
    return [row for row in wave if row.workflow.pk in current]


def _patch(wave: Sequence[Holding], came: Came, ports: Ports, clock: Clock, width: int) -> list[Holding]:
    """Those that were held. A node that changed meanwhile is read again by a message of its own."""

    def act(row: Holding) -> PortError | None:
        try:
            ports.actor.hold(
                HoldRequest(row.seen.name, row.workflow.hold_value, row.seen.resource_version, why=row.why)
            )
        except PortError as error:
            return error
        return None

    answers = list(zip(wave, _side_by_side(act, wave, width), strict=True))
    held = [row for row, error in answers if error is None]
    intents.resolve_all([row.intent.pk for row in held], intents.DONE, "Held.", clock.now())
    for row, error in answers:
        if isinstance(error, Conflict):
            intents.resolve(row.intent, intents.REFUSED, str(error), clock.now())
        elif error is not None:
            came.broken.append((row.workflow, row.step, error))
    return held


def _record(held: Sequence[Holding], came: Came, now: datetime) -> None:
    """The nodes are held and the steps are done; what follows goes out. An odd node is seen to by itself."""
    if not held:
        return
    with suppress(IllegalEdge):
        asking, others = _recorded(held, now)
        came.done |= {row.workflow.pk for row in held}
        came.asking |= {workflow.cluster_id for workflow in asking}
        came.followed += [(w.pk, w.version + 1, w.verb_at(w.step + 1)) for w in others]


@transaction.atomic
def _recorded(held: Sequence[Holding], now: datetime) -> tuple[list[Workflow], list[Workflow]]:
    """Those that ask for their next claim, and those whose next step goes on."""
    current = fence.lock_current(row.workflow for row in held)
    rows = [row for row in held if row.workflow.pk in current]
    workflows = [row.workflow for row in rows]
    texts: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        texts[hold.done(row.step)].append(row.step.pk)
    for text, pks in texts.items():
        Step.objects.filter(pk__in=pks).update(state="done", text=text, ended_at=now)
    entries: list[audit.Entry] = fence.move_nodes([(w, hold.why(w.incident)) for w in workflows], NodeState.HELD, now)
    entries += [persist.entry(row.workflow, "step.done", text=hold.done(row.step)) for row in rows]
    asking = [w for w in workflows if _asks_next(w)]
    others = [w for w in workflows if w not in asking]
    _go_on(asking, {**grants.asks(CLAIMS[DRAIN], now), "wake_at": None})
    _go_on(others, {**persist.NOT_BLOCKED, "wake_at": now + fence.LEASE})
    fence.tell(workflows, entries, now)
    return asking, others


def _go_on(workflows: Sequence[Workflow], changes: dict[str, Any]) -> None:
    """To their next step; their rows are locked and their versions were compared."""
    rows = Workflow.objects.filter(pk__in=[w.pk for w in workflows])
    rows.update(step=F("step") + 1, version=F("version") + 1, **changes)


def _asks_next(workflow: Workflow) -> bool:
    """A drain that waits for no job would look at nothing before it asks for its claim: it asks at once."""
    return workflow.verb_at(workflow.step + 1) == DRAIN and interrupting.presses(workflow.incident)
