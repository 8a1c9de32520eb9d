"""Which processes make up Muster on one machine, and what each is told.

Decides command lines, environments and the order of the stop. Refuses to start anything itself.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from fleet import settings_env as env
from fleet.ops.children import Spec
from fleet.ops.embedded.postgres import Postgres
from fleet.ops.embedded.valkey import Valkey

SERVICES, DATA_CENTRE, SERVERS = 0, 1, 2  # stages of the stop
QUIET = "ignore:You're running the worker with superuser,ignore:No directory at"
DEMO_BMC = "admin:simulated"
DEMO_CLUSTER = "demo"


@dataclass(frozen=True)
class Site:
    """Where this Muster lives."""

    root: Path
    var: Path
    host: str
    port: int
    demo: bool

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def address(self) -> str:
        return f"http://{'127.0.0.1' if self.host in ('0.0.0.0', '::') else self.host}:{self.port}/"  # noqa: S104


def site_from_environment(demo: bool) -> Site:
    root = Path(__file__).resolve().parent.parent.parent
    var = Path(env.text("MUSTER_VAR", str(root / "var"))).resolve()
    return Site(root, var, env.text("MUSTER_HOST", "127.0.0.1"), env.whole("MUSTER_PORT", 8000, 1), demo)


def shared_environment(site: Site, database_url: str, redis_url: str) -> dict[str, str]:
    """What every process of ours gets; values that the caller set himself win over the demo's."""
    shared = {
        "DJANGO_SETTINGS_MODULE": "fleet.settings",
        "MUSTER_VAR": str(site.var),
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "PYTHONUNBUFFERED": "1",
        "MALLOC_ARENA_MAX": "2",  # many threads, little memory
        "OPENBLAS_NUM_THREADS": "1",
        "PYTHONWARNINGS": QUIET,
    }
    if site.demo:
        speed = env.number("MUSTER_DEMO_SPEED", 1, 0.01)
        demo = {
            "MUSTER_DEMO": "1",
            "MUSTER_DEMO_BMC": DEMO_BMC,
            "MUSTER_SCRAPE_INTERVAL": "10",
            "MUSTER_RAY_NETWORKS": "127.0.0.0/8",  # where the simulator's dashboards are
            "MUSTER_SOAK_SECONDS": f"{10 / speed:g}",
        }
        shared.update({name: value for name, value in demo.items() if name not in os.environ})
    return shared


def _python(site: Site, name: str, *argv: str, environment: dict[str, str], stage: int = SERVICES) -> Spec:
    return Spec(name, [sys.executable, *argv], site.root, stage, environment)


def manage(site: Site, name: str, *argv: str, environment: dict[str, str]) -> Spec:
    """A management command that runs once."""
    return _python(site, name, "manage.py", *argv, environment=environment)


def postgres(site: Site, server: Postgres) -> Spec:
    return Spec(
        "postgres",
        server.command(),
        server.base,
        SERVERS,
        account=server.account,
        stop_signal=signal.SIGINT,  # disconnects clients, then ends in order
        death_signal=signal.SIGQUIT,  # ends its backends too; the log replays at the next start
        patience=3.0,
        quiet=True,
        before=server.settle,
    )


def valkey(site: Site, server: Valkey) -> Spec:
    return Spec(
        "valkey",
        server.command(),
        site.var,
        SERVERS,
        account=server.account,
        stdin=server.configuration(),
        patience=3.0,
        quiet=True,
    )


def simulator(site: Site, port: int, environment: dict[str, str]) -> Spec:
    nodes = env.whole("MUSTER_DEMO_NODES", 256, 1)
    scenario = env.text("MUSTER_DEMO_SCENARIO", "day")
    speed = env.number("MUSTER_DEMO_SPEED", 1, 0.01)
    argv = ["simulate", "--nodes", str(nodes), "--scenario", scenario, "--port", str(port), "--name", DEMO_CLUSTER]
    argv += ["--speed", f"{speed:g}"]
    spec = _python(site, "simulator", "manage.py", *argv, environment=environment, stage=DATA_CENTRE)
    return Spec(**{**spec.__dict__, "patience": 1.5})


def services(site: Site, environment: dict[str, str]) -> list[Spec]:
    """web, beat and worker, in the order of the stop."""
    web = ["-m", "uvicorn", "fleet.asgi:application", "--host", site.host, "--port", str(site.port)]
    web += ["--no-access-log", "--log-level", "warning", "--timeout-graceful-shutdown", "2"]
    celery = ["-m", "celery", "--quiet", "-A", "tasks"]
    beat = [*celery, "beat", "--schedule", str(site.run / "beat-schedule"), "--pidfile", "", "--loglevel", "WARNING"]
    worker = [*celery, "worker", "--pool", "threads", "--concurrency", "8", "--loglevel", "INFO"]
    worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    return [
        _python(site, "web", *web, environment=environment),
        _python(site, "beat", *beat, environment=environment),
        _python(site, "worker", *worker, environment=environment),
    ]


def observer(site: Site, cluster: str, environment: dict[str, str]) -> Spec:
    return _python(site, f"observer-{cluster}", "manage.py", "observe", cluster, environment=environment)
