"""Liveness, readiness and metrics.

Decides what `ready` means: the database answers and is migrated, Redis answers, workers run the ticks, and an observer
watches every cluster; what is missing is said in words. Refuses log-in: orchestrators and Prometheus have none.
"""

from __future__ import annotations

import redis
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from fleet.access.decorators import public
from fleet.api.metrics import FleetCollector
from fleet.bus import pulse
from fleet.bus.outbox import connection as redis_connection
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK

_migrated = False


@public
def healthz(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok", content_type="text/plain")


@public
def readyz(request: HttpRequest) -> HttpResponse:
    missing = [*_database(), *_redis()]
    response = JsonResponse({"ready": not missing, "missing": missing}, status=503 if missing else 200)
    response._has_been_logged = True  # type: ignore[attr-defined]  # not being ready is an answer, not an error
    return response


@public
def metrics(request: HttpRequest) -> HttpResponse:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(SYSTEM_CLOCK))
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _database() -> list[str]:
    global _migrated
    try:
        connection.ensure_connection()
        if not _migrated:
            executor = MigrationExecutor(connection)
            waiting = executor.migration_plan(executor.loader.graph.leaf_nodes())
            if waiting:
                return [f"The database is not migrated ({len(waiting)} to apply): run manage.py migrate."]
            _migrated = True
        return _observers()
    except DatabaseError as error:
        return [f"The database does not answer: {str(error).strip().splitlines()[0]}"]


def _observers() -> list[str]:
    now = SYSTEM_CLOCK.now()
    missing = []
    clusters = Cluster.objects.filter(removed_at=None).order_by("name").values_list("name", "observer_until")
    for name, until in clusters:
        if until is None:
            missing.append(f"No observer has watched cluster {name} yet.")
        elif until <= now:
            missing.append(f"No observer watches cluster {name} since {until:%Y-%m-%d %H:%M:%S} UTC.")
    return missing


def _redis() -> list[str]:
    try:
        redis_connection().ping()
        if not pulse.is_felt():
            return [f"No worker has run a tick for {pulse.SECONDS} s: nothing is acted upon. Do worker and beat run?"]
    except redis.RedisError as error:
        return [f"Redis does not answer: {error}"]
    return []
