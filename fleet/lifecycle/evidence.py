"""A RayJob that failed on sick nodes keeps its Ray cluster for a while, so that people can look.

Decides which failures count (an incident is open on a node of it), for how long, and that what was extended is taken
back when the incident is over. The timeline of the gang is the memory: its line is written before the object is, and
the object carries our mark in the same patch. Refuses to write in any mode but automate, to extend twice, to touch what
a person changed since, and what cannot end by itself: an extension has an end, whether or not anybody takes it back.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import transaction

from fleet.audit import services as audit
from fleet.gangs.endings import LATE
from fleet.gangs.models import Ending, GangMoment
from fleet.health.models import Incident
from fleet.inventory.models import Cluster, Mode
from fleet.policy import selectors as policy
from fleet.ports.errors import NotFound, PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.gangs import ref_of
from fleet.ports.rayjobs import FailedJob, RayJobs

KIND, ASKED, KEPT, RETURNED, LEFT = "kept", "asked", "kept", "returned", "left"
TITLE, MOST = "RayJob ", 20
"""How the title of such a failure begins; so many are looked at in one round."""


def sweep(cluster: Cluster, jobs: RayJobs, seconds: float, now: datetime) -> None:
    """One round over one cluster. Idempotent; whatever the API server refuses is told on the gang's timeline."""
    lines = list(GangMoment.objects.filter(cluster=cluster, kind=KIND, what__in=[ASKED, KEPT]).order_by("pk"))
    for line in [one for one in lines if _over(one, now)]:
        _close(line, LEFT, "The time that was asked for is over.")
    lines = [one for one in lines if one.what in (ASKED, KEPT)]
    if cluster.mode != Mode.AUTOMATE:
        return
    still = _open_incidents(cluster, {line.facts["incident"] for line in lines})
    for line in lines[:MOST]:
        if line.facts["incident"] not in still:
            _act(line, jobs, now, back=True)
        elif line.what == ASKED:
            _act(line, jobs, now, back=False)
    if policy.halt(cluster.pk, now) is None:
        for ending, incident in _worth_it(cluster, jobs, now):
            _begin(ending, incident, jobs, seconds, now)


def _worth_it(cluster: Cluster, jobs: RayJobs, now: datetime) -> Iterable[tuple[Ending, int]]:
    """Failures of late with an open incident on one of their nodes, of which no line tells yet."""
    found = Ending.objects.filter(cluster=cluster, at__gt=now - LATE, title__startswith=TITLE).order_by("-at")[:MOST]
    for ending in found:
        names = [one["node"] for one in ending.nodes]
        rows = Incident.objects.filter(cluster=cluster, state=Incident.OPEN, node__name__in=names).order_by("pk")
        incident = rows.values_list("pk", flat=True).first()
        if incident is not None and jobs.allows(ref_of(ending.gang_key).namespace) and not _told(ending):
            yield ending, incident


def _told(ending: Ending) -> bool:
    rows = GangMoment.objects.filter(cluster_id=ending.cluster_id, gang_key=ending.gang_key, kind=KIND)
    return rows.filter(facts__ending=ending.pk).exists()


def _begin(ending: Ending, incident: int, jobs: RayJobs, seconds: float, now: datetime) -> None:
    namespace, name = ref_of(ending.gang_key).namespace, ending.title.removeprefix(TITLE)
    try:
        seen = jobs.read(namespace, name)
    except PortError:
        return  # it is gone, or asked again in the next round while the failure is young
    ended = seen.ended_at or ending.at
    wanted = math.ceil((now - ended).total_seconds() + seconds)
    over = ended + timedelta(seconds=seen.ttl) <= now
    if seen.mark or over or not (seen.failed and seen.shuts_down and seen.ttl < wanted):
        return
    op = str(uuid.uuid4())
    facts = {
        "ending": ending.pk, "job": f"{namespace}/{name}", "uid": seen.uid, "incident": incident, "before": seen.ttl,
        "ttl": wanted, "mark": f"{incident}/{op}/{seen.ttl}", "until": (now + timedelta(seconds=seconds)).isoformat(),
        "raw": "",
    }  # fmt: skip
    with transaction.atomic():
        Ending.objects.select_for_update().get(pk=ending.pk)
        if _told(ending):
            return
        line = GangMoment.objects.create(
            cluster_id=ending.cluster_id, gang_key=ending.gang_key, at=now, kind=KIND, what=ASKED, facts=facts
        )
        _audit(line, "evidence.keep", now)
    _act(line, jobs, now, back=False)


def _act(line: GangMoment, jobs: RayJobs, now: datetime, *, back: bool) -> None:
    """Look first: what a lost answer did is seen by the mark."""
    try:
        seen = jobs.read(*_place(line))
        if seen.uid != line.facts["uid"]:
            raise NotFound("Another job has its name.")
        if back:
            _give_back(line, jobs, seen, now)
        else:
            _keep(line, jobs, seen)
    except NotFound:
        _close(line, LEFT, "The job is gone.")
    except (TemporaryError, UnknownOutcome):
        return  # looked at again in the next round
    except PermanentError as error:
        if not back:  # what cannot be taken back now is tried again, and ends by itself
            _close(line, LEFT, str(error))


def _keep(line: GangMoment, jobs: RayJobs, seen: FailedJob) -> None:
    facts = line.facts
    if seen.mark != facts["mark"]:
        if seen.mark or seen.ttl != facts["before"]:
            _close(line, LEFT, "Somebody changed the job meanwhile; it was left as it is.")
            return
        jobs.change(*_place(line), seen.version, facts["ttl"], facts["mark"])
    _close(line, KEPT, "")


def _give_back(line: GangMoment, jobs: RayJobs, seen: FailedJob, now: datetime) -> None:
    facts = line.facts
    if seen.mark != facts["mark"]:
        _close(line, LEFT if line.what == KEPT else RETURNED, "Our mark is not on the job: nothing is taken back.")
        return
    ours = seen.ttl == facts["ttl"]
    jobs.change(*_place(line), seen.version, facts["before"] if ours else None, None)
    with transaction.atomic():
        _close(line, RETURNED, "" if ours else "Somebody changed its time meanwhile; that stays.")
        _audit(line, "evidence.return", now)


def _place(line: GangMoment) -> tuple[str, str]:
    """Namespace and name of its job."""
    namespace, _, name = str(line.facts["job"]).partition("/")
    return namespace, name


def _close(line: GangMoment, what: str, raw: str) -> None:
    line.what, line.facts = what, {**line.facts, "raw": raw[:300]}
    line.save(update_fields=["what", "facts"])


def _over(line: GangMoment, now: datetime) -> bool:
    return now >= datetime.fromisoformat(line.facts["until"])


def _open_incidents(cluster: Cluster, wanted: set[int]) -> set[int]:
    rows = Incident.objects.filter(cluster=cluster, pk__in=wanted, state=Incident.OPEN)
    return set(rows.values_list("pk", flat=True)) if wanted else set()


def _audit(line: GangMoment, action: str, now: datetime) -> None:
    facts = line.facts
    detail = {"incident": facts["incident"], "before": facts["before"], "ttl": facts["ttl"], "until": facts["until"]}
    entry = audit.Entry("muster:worker", action, f"rayjob:{facts['job']}", detail=detail)
    audit.record(audit.chain_of(line.cluster_id), [entry], now)
