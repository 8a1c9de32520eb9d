"""Jobs that we suspended are started again, once: when none of their nodes is to be drained any more.

Decides when that is (the drains are over, skipped, aborted or stopped with all disruption, or the longest time has
passed), and whether the job is still ours to start: it has the UID and the mark of the row, and is suspended. The row
says that it is being started before the write, which takes the mark away with it: without the mark nothing is written
again. To start a job disrupts nobody, so no kill switch or breaker forbids it. Refuses to write in mode observe, and to
touch what somebody else started, took over or made anew. A person may have them started at once, in any mode.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

from django.db import transaction

from fleet.audit import services as audit
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import intents
from fleet.lifecycle.machine import AWAKE
from fleet.lifecycle.models import Intent, Workflow
from fleet.lifecycle.playbooks import DRAIN
from fleet.lifecycle.suspending import stopping
from fleet.lifecycle.suspending.models import Suspension
from fleet.policy import selectors as policy
from fleet.ports.errors import NotFound, PermanentError, TemporaryError, UnknownOutcome
from fleet.ports.suspends import Job, Suspends

LATE = timedelta(seconds=60)
"""After a call its effect may come for so long: a call takes eight seconds at most, a lease of a message ten."""
KEPT = timedelta(days=30)
MOST = 50
"""So many are looked at in one round, those first that have waited longest."""
VERB = "resume"


def sweep(cluster: Cluster, port: Suspends, now: datetime) -> None:
    """One round over one cluster. Idempotent; what the API server refuses is on the row, and tried again."""
    if cluster.mode == Mode.OBSERVE:
        return
    rows = Suspension.objects.filter(cluster_id=cluster.pk, ended_at=None).order_by("begun_at")
    for row in [one for one in rows if due(one, now)][:MOST]:
        _end(row, port, now)


def by_hand(cluster: Cluster, port: Suspends, now: datetime, nodes: Collection[str] = ()) -> list[Suspension]:
    """A person wants them started again now (those that ran on `nodes`, or all), whatever the mode: what became of
    each. One that is still open cannot be started: its text says why."""
    rows = Suspension.objects.filter(cluster_id=cluster.pk, ended_at=None).order_by("begun_at")
    wanted = [row.pk for row in rows if not nodes or set(nodes) & set(row.nodes)]
    Suspension.objects.filter(pk__in=wanted, ended_at=None).update(until=now)
    for row in Suspension.objects.filter(pk__in=wanted, ended_at=None).order_by("begun_at"):
        _end(row, port, now)
    return list(Suspension.objects.filter(pk__in=wanted).order_by("begun_at"))


def due(row: Suspension, now: datetime) -> bool:
    """While all new disruption is stopped no drain goes on, and its nodes are held: nothing is gained by waiting."""
    return now >= row.until or not awaited(row) or policy.halt(row.cluster_id, now) is not None


def namespaces(cluster: Cluster) -> list[str]:
    """Those in which anything of ours is suspended, or about to be."""
    rows = Suspension.objects.filter(cluster_id=cluster.pk, ended_at=None)
    return sorted(set(rows.values_list("namespace", flat=True)))


def awaited(row: Suspension) -> bool:
    """Is any node on which it ran still to be drained, or being drained?"""
    open_ = Workflow.objects.filter(
        cluster_id=row.cluster_id, node__name__in=row.nodes, state__in=AWAKE, plan__contains=[{"verb": DRAIN}]
    )
    return any(one.step <= [item["verb"] for item in one.plan].index(DRAIN) for one in open_)


def _end(row: Suspension, port: Suspends, now: datetime) -> None:
    """Look first: what a lost answer did is seen by the mark."""
    try:
        job = port.read(row.kind, row.namespace, row.name)  # type: ignore[arg-type]
        if job.uid != row.uid:
            raise NotFound("Another job has its name.")
        if job.mark != row.mark:
            _unmarked(row, job, now)
        elif job.ended:
            _close(row, Suspension.LEFT, "The job has ended.", now)
        elif _begin(row, job.suspended, now):
            _write(row, port, job, now)
    except NotFound:
        _close(row, Suspension.LEFT, "The job is gone.", now)
    except (TemporaryError, UnknownOutcome):
        return  # looked at again in the next round
    except PermanentError as error:  # it stays ours to start: a person must give the right back
        Suspension.objects.filter(pk=row.pk).update(text=str(error)[:300])


def _unmarked(row: Suspension, job: Job, now: datetime) -> None:
    """Our mark is not on the job: whatever its field says, it is not ours to change."""
    if row.state == Suspension.ASKED:
        if now >= row.asked_at + LATE:
            intents.resolve_all([row.pk], intents.EXPIRED, "It was never written.", now)
            _close(row, Suspension.LEFT, "It was never written.", now)
        return
    if row.state == Suspension.RESUMING and not job.suspended:
        _close(row, Suspension.RESUMED, "It is started again.", now)
        return
    _close(row, Suspension.LEFT, "Somebody took our mark away: the job is theirs.", now)


def _begin(row: Suspension, suspended: bool, now: datetime) -> bool:
    """Say that it is being started, before anything is written. False when a drain came upon it meanwhile."""
    with transaction.atomic():
        fresh = Suspension.objects.select_for_update().get(pk=row.pk)
        if fresh.ended_at is not None or not due(fresh, now):
            return False
        if fresh.state == Suspension.RESUMING:
            return True
        if fresh.state == Suspension.ASKED:  # its answer was lost, and nobody looked since
            intents.resolve_all([row.pk], intents.DONE, "Its controller ended its pods.", now)
        fresh.state = Suspension.RESUMING
        fresh.suspended_at = fresh.suspended_at or now
        fresh.save(update_fields=["state", "suspended_at"])
        _tell(fresh, suspended, now)
    return True


def _write(row: Suspension, port: Suspends, job: Job, now: datetime) -> None:
    """The one write: the mark goes, and the field with it where nobody else has started the job."""
    port.change(job, False if job.suspended else None, None)
    if job.suspended:
        _close(row, Suspension.RESUMED, "It is started again.", now)
    else:
        _close(row, Suspension.LEFT, "Somebody had started it already; our mark is taken off.", now)


def _close(row: Suspension, state: str, why: str, now: datetime) -> None:
    stopping.close(row, state, why, now)
    asked = Intent.objects.filter(verb=VERB, before__suspension=str(row.pk), resolved_at=None)
    intents.resolve_all(asked.values_list("pk", flat=True), intents.DONE, why, now)


def forget(now: datetime) -> None:
    """Rows that are long over."""
    Suspension.objects.filter(ended_at__lt=now - KEPT).delete()


def _tell(row: Suspension, suspended: bool, now: datetime) -> None:
    """The intent on the workflow's page, and the line in the audit; the workflow itself may be over."""
    if row.workflow is None or row.step is None:
        detail = {"job": row.title, "mark": row.mark}
        entry = audit.Entry("muster:worker", f"intent.{VERB}", f"job:{row.title}", detail=detail)
    else:
        before = {"suspension": str(row.pk), "suspended": suspended}
        intent = intents.of(row.workflow, row.step, VERB, row.title, now, before=before)
        intent.save(force_insert=True)
        entry = intents.entry(intent)
    audit.record(audit.chain_of(row.cluster_id), [entry], now)
