"""Burn-in: idle nodes are tested for silent errors while nobody needs them.

Decides when a test of an idle node begins, that it goes the moment work comes or anybody lays a hand on the node, and
that a failure opens an incident which an active test must confirm. Refuses to begin without a policy, outside mode
automate, while a stop, an open breaker or a freeze lasts, and on a node that a fresh look does not show to be free.
The run's row is written before the Job; both are found by the Job's name.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Max, Q

from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Mode, Node
from fleet.lifecycle.context import Ports
from fleet.lifecycle.machine import OPEN_WORKFLOW_STATES, NodeState
from fleet.lifecycle.validation import idle, judge, keeping, rack, reported
from fleet.lifecycle.validation.models import ValidationRun
from fleet.lifecycle.validation.running import LATE, part_of, request
from fleet.lifecycle.validation.suite import ALL_GPUS, BURN_IN, BurnIn, Test
from fleet.lifecycle.watched import unwatched
from fleet.policy import selectors as policy
from fleet.policy import windows
from fleet.ports.cluster import PURPOSE_LABEL, NodeSeen, PodSeen
from fleet.ports.errors import PortError

log = logging.getLogger(__name__)
LABEL = "burn-in"
CONCLUSIVE = (judge.PASSED, judge.FAILED)


def running(cluster_id: int) -> list[ValidationRun]:
    rows = ValidationRun.objects.filter(cluster_id=cluster_id, purpose=BURN_IN, ended_at=None)
    return list(rows.select_related("node__pool", "node__cluster").order_by("pk"))


def watch(cluster: Cluster, ports: Ports, now: datetime) -> int:
    """Look at every test under way: end those in anybody's way, record those that are over. How many ended.

    In mode observe nothing is written to the cluster, so that a test ends at its own deadline or by its priority."""
    ours = running(cluster.pk)
    if cluster.mode == Mode.OBSERVE:
        late = [found for found in ours if now > found.deadline + LATE]
        return sum(
            keeping.end(found, judge.STOPPED, "The mode is observe: nobody looked after it.", now) for found in late
        )
    if not ours or not ports.lease():
        return 0
    hungry = _hungry(ports)
    ended = 0
    for found in ours:
        try:
            ended += _look(found, ports, hungry, now)
        except PortError as error:
            log.warning("burn-in %s: %s", found.job, error)
    return ended


def _look(found: ValidationRun, ports: Ports, hungry: str, now: datetime) -> int:
    namespace, _, name = found.job.partition("/")
    why = hungry or _in_use(found, ports)
    if not why:
        job = ports.actor.job(namespace, name)
        if job.phase in ("succeeded", "failed"):
            return _record(found, ports.actor.job_log(namespace, name), job.phase == "succeeded", job.text, now)
        if job.phase == "running" and found.ran_at is None:
            ValidationRun.objects.filter(pk=found.pk).update(ran_at=now)
        if job.phase == "missing" and now > found.started_at + timedelta(seconds=30):
            why = "The Job is gone: something that outranks it may have taken its place."
        elif now > found.deadline + LATE:
            why = "The Job did not end in time."
    if not why:
        return 0
    ports.actor.delete_job(namespace, name)
    return int(keeping.end(found, judge.STOPPED, why, now))


def _record(found: ValidationRun, said: str | None, good: bool, text: str, now: datetime) -> int:
    test = _test(found)
    if test is None:
        return int(keeping.end(found, judge.STOPPED, "Its test is no longer part of the suite.", now))
    expected = found.node.gpu_expected if test.gpus == ALL_GPUS else None
    if keeping.finish(found, test, said, None if good else text, expected, now) == judge.FAILED:
        reported.by_test(found, part_of(found), now)
    return 1


def _test(found: ValidationRun) -> Test | None:
    suite = rack.suite_of(found.node)
    return next((test for test in suite.of(BURN_IN) if test.name == found.test), None) if suite else None


def _hungry(ports: Ports) -> str:
    """Who waits for GPUs, as a sentence; "" when nobody does. Whoever it is goes before.

    One that asks for devices by resource claims tells no number of GPUs, and may well mean some.
    """
    try:
        pods = ports.reader.unscheduled_pods()
        waiting = [pod for pod in pods if (pod.gpus or pod.claims) and not pod.finished]
    except PortError as error:
        return f"Whether work waits is not known: {error}"
    return f"{waiting[0].key} waits for GPUs." if waiting else ""


def _in_use(found: ValidationRun, ports: Ports) -> str:
    """Why the node is not free any more, as a sentence."""
    node = ports.reader.node(found.node.name)
    return _not_free(node, ports.reader.pods_on(node.name)) or _claimed(found.node_id)


def _not_free(node: NodeSeen, pods: Sequence[PodSeen]) -> str:
    if node.unschedulable or node.ready is not True or node.deleting:
        return "The node is cordoned, not Ready or being deleted."
    busy = [
        pod
        for pod in pods
        if pod.kind in ("workload", "bare") and not pod.finished and pod.labels.get(PURPOSE_LABEL) != LABEL
    ]
    return f"{busy[0].key} runs on it." if busy else ""


def _claimed(node_id: int) -> str:
    free = Node.objects.filter(
        pk=node_id, managed=True, gone_at=None, lifecycle__state=NodeState.IN_SERVICE, verdict_row__verdict="healthy"
    )
    taken = Q(workflows__state__in=OPEN_WORKFLOW_STATES) | Q(incidents__state=Incident.OPEN)
    return "" if free.exclude(taken).exists() else "Something is wrong with the node, or somebody works on it."


def start(cluster: Cluster, ports: Ports, now: datetime) -> list[ValidationRun]:
    """Begin what is due and may begin."""
    wanted = rack.suites().burn_in
    if wanted is None or cluster.mode != Mode.AUTOMATE or policy.halt(cluster.pk, now) or unwatched(cluster.pk, now):
        return []
    if not ports.lease() or _hungry(ports):
        return []
    begun = _begin(cluster, wanted, _fresh(cluster, wanted, ports, now), ports.validation_namespace, now)
    for found, test, node in begun:
        with suppress(PortError):  # the watch finds the Job missing and ends the run
            ports.actor.create_job(request(test, found, node, ports.validation_image, wanted.priority_class))
    return [found for found, _, _ in begun]


def _fresh(cluster: Cluster, wanted: BurnIn, ports: Ports, now: datetime) -> list[tuple[Node, Test, NodeSeen]]:
    """What is due on nodes that a look at the cluster, just now, shows to be free."""
    count = len(running(cluster.pk))
    if count >= wanted.at_once or not idle.open_now(wanted, now):
        return []
    free = {node.pk: node for node in _free(cluster, wanted, now)}
    tests = {
        pk: {test.name: test for test in suite.of(BURN_IN)}
        for pk, node in free.items()
        if (suite := rack.suite_of(node))
    }
    found = []
    for one in idle.choose(_candidates(cluster.pk, free, tests), wanted, count, now):
        seen = ports.reader.node(one.name)
        if not _not_free(seen, ports.reader.pods_on(one.name)):
            found.append((free[one.node_id], tests[one.node_id][one.test], seen))
    return found


@transaction.atomic
def _begin(
    cluster: Cluster, wanted: BurnIn, chosen: Sequence[tuple[Node, Test, NodeSeen]], namespace: str, now: datetime
) -> list[tuple[ValidationRun, Test, NodeSeen]]:
    """The rows of the runs, never more than the policy allows at once, whoever else begins some at this moment."""
    if not Cluster.objects.select_for_update(skip_locked=True, no_key=True).filter(pk=cluster.pk).exists():
        return []
    room = wanted.at_once - len(running(cluster.pk))
    begun = []
    for node, test, seen in chosen[: max(0, room)]:
        found = _row(node, test, namespace, now)
        if found is not None:
            begun.append((found, test, seen))
    return begun


def _free(cluster: Cluster, wanted: BurnIn, now: datetime) -> list[Node]:
    """Nodes that serve, work for nobody, and that nothing is wrong with."""
    rows = (
        Node.objects.filter(
            cluster=cluster, managed=True, gone_at=None, ready=True, unschedulable=False, pods=0, gpu_expected__gt=0,
            lifecycle__state=NodeState.IN_SERVICE, verdict_row__verdict="healthy",
        )
        .exclude(workflows__state__in=OPEN_WORKFLOW_STATES)
        .exclude(incidents__state=Incident.OPEN)
        .exclude(validation_runs__purpose=BURN_IN, validation_runs__ended_at=None)
        .exclude(pool__mode__in=[Mode.OBSERVE, Mode.RECOMMEND])
        .select_related("pool", "cluster")
    )  # fmt: skip
    times = policy.windows_of(cluster.pk)
    pools: dict[str, bool] = {}
    found = []
    for node in rows:
        pool = node.pool.name if node.pool else ""
        if pool not in pools:
            pools[pool] = wanted.covers(pool) and windows.decide(times, pool, False, now).allowed
        if pools[pool]:
            found.append(node)
    return found


def _candidates(cluster_id: int, free: dict[int, Node], tests: dict[int, dict[str, Test]]) -> list[idle.Candidate]:
    """Every test of every free node with its last times. One query."""
    rows = (
        ValidationRun.objects.filter(cluster_id=cluster_id, purpose=BURN_IN, node_id__in=list(free))
        .values_list("node_id", "test")
        .annotate(tried=Max("started_at"), tested=Max("started_at", filter=Q(result__in=CONCLUSIVE)))
    )
    times = {(node_id, test): (tested, tried) for node_id, test, tried, tested in rows}
    return [
        idle.Candidate(pk, free[pk].name, name, free[pk].first_seen_at, *times.get((pk, name), (None, None)))
        for pk, mine in tests.items()
        for name in mine
    ]


def _row(node: Node, test: Test, namespace: str, now: datetime) -> ValidationRun | None:
    level = test.level(BURN_IN)
    suite = rack.suite_of(node)
    try:
        with transaction.atomic():
            found = ValidationRun.objects.create(
                cluster_id=node.cluster_id,
                node=node,
                purpose=BURN_IN,
                suite=suite.name if suite else "",
                test=test.name,
                kind=test.kind,
                level=level,
                job=f"{namespace}/muster-burn-in-{node.pk}-{int(now.timestamp())}-{test.name}",
                sku=node.gpu_model,
                pool=node.pool.name if node.pool else "",
                started_at=now,
                deadline=now + timedelta(seconds=test.deadline(level)),
            )
    except IntegrityError:
        return None  # another worker was faster
    return found
