"""An incident that a test found while nobody complained.

Decides that a failed test of an idle node is a suspicion: its incident asks for an active test, and disrupts nobody by
itself. Refuses a second incident for what is open already.
"""

from __future__ import annotations

from datetime import datetime

from django.db import transaction

from fleet.audit import services as audit
from fleet.bus.outbox import Notice, publish
from fleet.health.models import Incident
from fleet.lifecycle.validation.models import ValidationRun

CAUSE = "burn-in"
ACTOR = "muster:worker"


@transaction.atomic
def by_test(run: ValidationRun, device: str, now: datetime) -> Incident | None:
    """The incident of a failed run; None when one is open."""
    incident, made = Incident.objects.get_or_create(
        node_id=run.node_id,
        device=device[:200],
        cause=CAUSE,
        state=Incident.OPEN,
        defaults={
            "cluster_id": run.cluster_id,
            "scope": "device" if device else "node",
            "rule": CAUSE,
            "severity": "degraded",
            "action_class": "confirm",
            "title": f"A test of the idle node failed: {run.text}"[:300],
            "boot_id": run.node.boot_id,
            "first_bad_at": run.started_at,
            "detected_at": now,
            "evidence": {"job": run.job, "test": run.test, "level": run.level, "result": run.text},
        },
    )
    if not made:
        return None
    publish(run.cluster_id, [Notice("incident", str(incident.pk), run.node.name)], now)
    detail = {"title": incident.title, "job": run.job}
    entry = audit.Entry(ACTOR, "incident.open", f"incident:{incident.pk}", node=run.node.name, detail=detail)
    audit.record(audit.chain_of(run.cluster_id), [entry], now)
    return incident
