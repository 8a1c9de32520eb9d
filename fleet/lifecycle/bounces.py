"""Nodes that fail again within a day of their return: counted against the verb that returned them.

Decides what is a bounce: a fault of the node itself, found within 24 hours of its return, for which Muster would take
the node out again. The same cause is told as *came back*, another one as *failed again*; neither remedy held. Refuses
to count what is no fault of the node: one that many share, one that is muted or unsettled, a suspicion that no test has
confirmed, one that was there before the return, and what people ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db.models import Q

from fleet.audit import services as audit
from fleet.health import selectors as health
from fleet.health.models import Incident
from fleet.lifecycle import shelf
from fleet.lifecycle.cases import case_of
from fleet.lifecycle.models import Remedy
from fleet.lifecycle.playbooks import CONFIRM, plan_for

DAY = timedelta(hours=24)
BY = "muster:planner"


def find(incident_ids: Iterable[int], now: datetime, confirmed: bool = False) -> list[audit.Entry]:
    """Mark what these open incidents tell of earlier remedies; the caller records the entries in its transaction.

    One query where nothing was remedied of late. `confirmed`: a test has shown that a suspicion is true.
    """
    ids = list(incident_ids)
    open_now = Q(pk__in=ids, state=Incident.OPEN, node__managed=True, node__gone_at=None)
    nodes = Incident.objects.filter(open_now).values("node_id")
    lately = list(
        Remedy.objects.filter(node_id__in=nodes, result__in=(Remedy.HELD, Remedy.AGAIN), ended_at__gte=now - 2 * DAY)
        .select_related("workflow__node")
        .order_by("pk")
    )
    if not lately:
        return []
    settled = Q(plan_after=None) | Q(plan_after__lte=now)
    audible = Q(muted_until=None) | Q(muted_until__lte=now)
    found = list(
        Incident.objects.filter(open_now, settled, audible, node_id__in={remedy.node_id for remedy in lately})
        .exclude(pk__in=health.quiet_incidents(lately[0].cluster_id))
        .select_related("node__pool", "node__cluster")
        .order_by("detected_at", "pk")
    )
    return [entry for remedy in lately if (entry := _judge(remedy, found, confirmed)) is not None]


def _judge(remedy: Remedy, incidents: Sequence[Incident], confirmed: bool) -> audit.Entry | None:
    mine = [i for i in incidents if i.node_id == remedy.node_id and i.detected_at - DAY <= remedy.ended_at]
    same = next((incident for incident in mine if incident.cause == remedy.cause), None)
    other = next((i for i in mine if i.detected_at >= remedy.ended_at and _takes_out(i, confirmed)), None)
    incident = same or other
    if incident is None or (same is None and remedy.result == Remedy.AGAIN):
        return None
    remedy.result = Remedy.BOUNCED if same else Remedy.AGAIN
    remedy.back_incident, remedy.back_at = incident.pk, incident.detected_at
    remedy.save(update_fields=["result", "back_incident", "back_at"])
    hours = max(0.0, (incident.detected_at - remedy.ended_at).total_seconds()) / 3600
    name = remedy.workflow.node.name
    text = f"{incident.label} ({incident.cause}) {hours:.1f} h after {remedy.workflow.label} ({remedy.verb})."
    detail = {"workflow": remedy.workflow_id, "incident": incident.pk, "verb": remedy.verb, "text": text}
    return audit.Entry(BY, "remedy.bounced" if same else "remedy.again", f"node:{name}", node=name, detail=detail)


def _takes_out(incident: Incident, confirmed: bool) -> bool:
    """Would Muster take the node out for it? Of a suspicion only once a test has confirmed it."""
    if incident.node is None:
        return False
    verbs = [step.verb for step in plan_for(case_of(incident, incident.node), shelf.book()).steps]
    return bool(verbs) and (confirmed or CONFIRM not in verbs)
