"""What Muster did to the jobs of gangs for the drains of their nodes: suspended them, and started them again.

Decides which suspensions are of a gang (those of the objects that speak of it, and of the job that it is called by) and
their words. Reads the rows of the suspensions, so that nothing of it is written twice. Refuses what was asked for and
never happened, and what somebody else suspended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from django.db.models import F, Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as lazy

from fleet.lifecycle.suspending.models import Suspension
from fleet.readmodels import phrases
from fleet.readmodels.gang_reasons import Told

Named = tuple[str, str, str]  # kind, namespace, name
NODES = 3  # named in one sentence
_WAITS = lazy("Muster starts it again when none of its nodes is to be drained any more.")
_DO = lazy("See what the drains of these nodes wait for. To start it before them, resume it: Muster respects that.")


def of(cluster_id: int, named: Collection[Named]) -> list[Suspension]:
    """Those of jobs by these names that did happen, the newest first. One query."""
    if not named:
        return []
    asked = Q()
    for kind, namespace, name in named:
        asked |= Q(kind=kind, namespace=namespace, name=name)
    rows = Suspension.objects.filter(asked, cluster_id=cluster_id, suspended_at__isnull=False)
    return list(rows.filter(Q(ended_at=None) | Q(ended_at__gt=F("suspended_at"))).order_by("-suspended_at")[:50])


def sentences(gangs: Iterable[tuple[int, Named]]) -> dict[tuple[int, Named], str]:
    """What stands now of each of these (cluster id, job). One query; none without a gang."""
    wanted = set(gangs)
    if not wanted:
        return {}
    names, clusters = {named[2] for _pk, named in wanted}, {pk for pk, _named in wanted}
    rows = Suspension.objects.filter(
        cluster_id__in=clusters, name__in=names, ended_at=None, suspended_at__isnull=False
    ).order_by("suspended_at")
    found = {(row.cluster_id, (row.kind, row.namespace, row.name)): stands(row) for row in rows}
    return {key: text for key, text in found.items() if key in wanted}


def stands(row: Suspension) -> str:
    """Of one that is open."""
    told = _("Muster suspended %(job)s at %(at)s UTC for the drain of %(nodes)s, and starts it again after it, "
             "at %(until)s UTC at the latest.") % {**_filled(row), "at": _clock(row.suspended_at or row.begun_at),
                                                   "until": _clock(row.until)}  # fmt: skip
    if not row.text:
        return told
    return told + " " + _("It could not be started again so far: %(why)s") % {"why": phrases.told(row.text)}


def began(row: Suspension) -> str:
    return _("Muster suspended %(job)s for the drain of %(nodes)s.") % _filled(row)


def ended(row: Suspension) -> str:
    if row.state == Suspension.RESUMED:
        return _("Muster started %(job)s again.") % _filled(row)
    return _("%(job)s is no longer Muster's to start again.") % _filled(row)


def ours(why: Told, sentence: str) -> Told:
    """The reason of a gang that is suspended, where it was Muster that did it."""
    return replace(why, sentence=sentence, waits=str(_WAITS), do=str(_DO))


def _filled(row: Suspension) -> dict[str, str]:
    nodes = [str(node) for node in row.nodes]
    named = ", ".join(nodes[:NODES])
    if len(nodes) > NODES:
        named = _("%(names)s and %(n)d more") % {"names": named, "n": len(nodes) - NODES}
    return {"job": row.title, "nodes": named}


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M}"
