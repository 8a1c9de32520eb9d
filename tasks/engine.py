"""The tasks of the lifecycle engine.

Decides nothing. Every one is idempotent: a message delivered twice, late or never changes nothing but latency.
"""

from __future__ import annotations

import logging
from datetime import timedelta

from celery import shared_task
from django.conf import settings
from django.db import close_old_connections

from fleet import wiring, wiring_gangs
from fleet.bus import pulse
from fleet.bus.models import Outbox
from fleet.gangs import retention as gang_retention
from fleet.health import detector_changes
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle import approving, clock_back, engine, evidence, grants, maintenance, planner, services, withdrawing
from fleet.lifecycle.machine import WorkflowState
from fleet.lifecycle.models import Workflow
from fleet.lifecycle.suspending import resuming
from fleet.lifecycle.validation import retention
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError

log = logging.getLogger(__name__)
OUTBOX_KEPT = timedelta(hours=1)


@shared_task(name="tasks.advance")
def advance(workflow_id: int, version: int) -> None:
    close_old_connections()
    came = engine.advance(workflow_id, version, wiring.ports_of, SYSTEM_CLOCK, wiring.timing())
    log.info("WF-%s v%s: %s", workflow_id, version, came)


@shared_task(name="tasks.hold")
def hold(holds: list[tuple[int, int]]) -> None:
    close_old_connections()
    came = engine.hold([(pk, version) for pk, version in holds], wiring.ports_of, SYSTEM_CLOCK, wiring.timing())
    log.info("holds of %s: %s", ", ".join(f"WF-{pk}" for pk, _ in holds), came)


@shared_task(name="tasks.answer")
def answer(cluster_id: int) -> None:
    """Whoever asks in the cluster; of many such messages at once the first answers all."""
    close_old_connections()
    grants.run(cluster_id, SYSTEM_CLOCK, asked=True)


@shared_task(name="tasks.tick")
def tick() -> None:
    """Wake what is due, and answer those who ask for a claim and have not been answered."""
    close_old_connections()
    engine.claim_due(SYSTEM_CLOCK)
    asking = Workflow.objects.filter(state=WorkflowState.BLOCKED, blocked_code=grants.ASKING)
    for cluster_id in asking.values_list("cluster_id", flat=True).distinct():
        grants.run(cluster_id, SYSTEM_CLOCK, asked=True)
    wiring.warm_up()
    pulse.beat()


@shared_task(name="tasks.sweep")
def sweep() -> None:
    """The slower safety net: caps asked anew, open incidents without a workflow planned, settled plans dropped,
    batches driven."""
    close_old_connections()
    clock_back.mend(SYSTEM_CLOCK.now())
    services.drop_settled_plans(SYSTEM_CLOCK.now())
    approving.expire(SYSTEM_CLOCK.now())
    services.settle_released(SYSTEM_CLOCK.now())
    withdrawing.leave_departing(SYSTEM_CLOCK.now())
    for cluster in Cluster.objects.filter(removed_at=None):
        planner.replan(cluster.pk, SYSTEM_CLOCK, "muster:sweep")
        if cluster.mode != Mode.OBSERVE:
            grants.run(cluster.pk, SYSTEM_CLOCK)
    maintenance.sweep(SYSTEM_CLOCK)


@shared_task(name="tasks.leases")
def keep_leases() -> None:
    """Renew the Lease of each cluster that we act in, also while there is nothing to do: one that ran out for want of
    work would fall to a copy of this installation."""
    close_old_connections()
    for cluster in Cluster.objects.filter(removed_at=None).exclude(mode=Mode.OBSERVE):
        try:
            wiring.ports_of(cluster).lease()
        except PortError as error:
            log.warning("the lease of %s: %s", cluster.name, error)


@shared_task(name="tasks.evidence")
def keep_evidence() -> None:
    """RayJobs that failed on sick nodes, where a place allows it and this installation is the one that acts."""
    close_old_connections()
    for cluster in Cluster.objects.filter(removed_at=None):
        try:
            jobs = wiring_gangs.ray_jobs(cluster)
            if jobs is not None and (cluster.mode != Mode.AUTOMATE or wiring.ports_of(cluster).lease()):
                evidence.sweep(cluster, jobs, settings.RAY_KEEP_SECONDS, SYSTEM_CLOCK.now())
        except PortError as error:
            log.warning("the evidence of %s: %s", cluster.name, error)


@shared_task(name="tasks.suspensions")
def resume_jobs() -> None:
    """Jobs that drains suspended, started again by the installation that acts."""
    close_old_connections()
    for cluster in Cluster.objects.filter(removed_at=None):
        namespaces = resuming.namespaces(cluster)
        try:
            port = wiring_gangs.suspends(cluster, namespaces) if namespaces else None
            if port is not None and (cluster.mode == Mode.OBSERVE or wiring.ports_of(cluster).lease()):
                resuming.sweep(cluster, port, SYSTEM_CLOCK.now())
        except PortError as error:
            log.warning("suspended jobs of %s: %s", cluster.name, error)


@shared_task(name="tasks.retain")
def retain() -> None:
    close_old_connections()
    retention.retain(SYSTEM_CLOCK.now())
    detector_changes.forget(SYSTEM_CLOCK.now())
    gang_retention.retain(SYSTEM_CLOCK.now())
    resuming.forget(SYSTEM_CLOCK.now())
    Outbox.objects.filter(created_at__lt=SYSTEM_CLOCK.now() - OUTBOX_KEPT).delete()
