"""The tasks of burn-in: begin tests of idle nodes, and look after those under way.

Decides nothing. Both are idempotent; without a policy and without a test under way they cost one query.
"""

from __future__ import annotations

import logging

from celery import shared_task
from django.db import close_old_connections

from fleet import wiring
from fleet.inventory.models import Cluster, Mode
from fleet.lifecycle.validation import burnin, rack
from fleet.lifecycle.validation.models import ValidationRun
from fleet.lifecycle.validation.suite import BURN_IN
from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.errors import PortError

log = logging.getLogger(__name__)


@shared_task(name="tasks.burn_in_watch")
def watch() -> None:
    """Every two seconds: a test goes the moment work comes."""
    close_old_connections()
    under_way = ValidationRun.objects.filter(purpose=BURN_IN, ended_at=None).values("cluster_id").distinct()
    for cluster in Cluster.objects.filter(pk__in=under_way, removed_at=None):
        try:
            burnin.watch(cluster, wiring.ports_of(cluster), SYSTEM_CLOCK.now())
        except PortError as error:
            log.warning("burn-in of %s cannot be watched: %s", cluster.name, error)


@shared_task(name="tasks.burn_in_start")
def start() -> None:
    close_old_connections()
    if rack.suites().burn_in is None:
        return
    for cluster in Cluster.objects.filter(removed_at=None, mode=Mode.AUTOMATE):
        try:
            burnin.start(cluster, wiring.ports_of(cluster), SYSTEM_CLOCK.now())
        except PortError as error:
            log.warning("burn-in of %s cannot begin: %s", cluster.name, error)
