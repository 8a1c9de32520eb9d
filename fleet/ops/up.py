"""`manage.py up`: the whole of Muster on one machine.

Decides the order of the start and what counts as ready. Refuses a second supervisor on the same `var`, and a port that
something else has, naming who has it.
"""

from __future__ import annotations

import argparse
import fcntl
import http.client
import os
import sys
import time
from pathlib import Path
from typing import TextIO

from fleet import settings_env as env
from fleet.ops import plan
from fleet.ops.clusters import ClusterList
from fleet.ops.embedded.location import Unreachable
from fleet.ops.embedded.postgres import DatabaseFailure, Postgres
from fleet.ops.embedded.valkey import CacheFailure, Valkey
from fleet.ops.listeners import first_free, holder, is_free
from fleet.ops.output import Console
from fleet.ops.processes import Account, unprivileged_account, write_atomically
from fleet.ops.supervisor import Stopped, Supervisor

SIMULATOR_PORT = 18443
CLUSTERS_EVERY = 3.0
READY_EVERY = 0.3
READY_WITHIN = 60.0


class CannotStart(Exception):
    """The text says why, for the person at the terminal."""


def take_lock(run: Path) -> TextIO:
    """The only supervisor of this `var`, for as long as the file stays open."""
    lock = (run / "supervisor.pid").open("a+")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        raise CannotStart(f"Muster already runs here (supervisor pid {lock.read().strip()}); stop it first") from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def ask(address: str, path: str) -> tuple[int, str]:
    """Status and the start of the answer to a GET, within two seconds; (0, reason) when there is none."""
    link = http.client.HTTPConnection(address.removeprefix("http://").strip("/"), timeout=2)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, answer.read(600).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return 0, str(error)
    finally:
        link.close()


class Muster:
    """One start, life and stop."""

    def __init__(self, site: plan.Site, supervisor: Supervisor) -> None:
        self.site = site
        self.supervisor = supervisor
        self._postgres: Postgres | None = None
        self.clusters: ClusterList | None = None
        self._next_look = 0.0
        self._next_ask = 0.0
        self._complain_at = 0.0
        self._announced = False

    def start(self) -> None:
        site = self.site
        if not is_free(site.port, site.host):
            raise CannotStart(f"port {site.port} is taken by {holder(site.port)}; stop it or set MUSTER_PORT")
        for stale in (*site.run.glob("*.pid"), *site.run.glob("*.url")):
            if stale.name != "supervisor.pid":
                stale.unlink(missing_ok=True)
        database_url = env.text("DATABASE_URL") or self._start_postgres()
        redis_url = env.text("REDIS_URL") or self._start_valkey()
        self.environment = plan.shared_environment(site, database_url, redis_url)
        self.clusters = ClusterList(database_url)
        if site.demo:
            self._start_simulator()
        self._run_once("prepare")
        if site.demo:
            self._wait_for_simulator()
            self._run_once("demo")
        for spec in plan.services(site, self.environment):
            self.supervisor.add(spec)
        self._complain_at = time.monotonic() + READY_WITHIN

    def _start_postgres(self) -> str:
        server = Postgres(self.site.var, self._account(), self.supervisor.say)
        server.prepare()
        self._postgres = server
        self.supervisor.add(plan.postgres(self.site, server))
        self.supervisor.wait_for(server.answers, 120, "postgres", every=0.03)
        server.ensure_database()
        write_atomically(self.site.run / "database.url", server.url(), 0o600)
        return server.url()

    def _start_valkey(self) -> str:
        server = Valkey(self.site.var, self._account(), self.supervisor.say)
        server.prepare(self._postgres.base if self._postgres else None)
        self.supervisor.add(plan.valkey(self.site, server))
        self.supervisor.wait_for(server.answers, 20, "valkey", every=0.03)
        write_atomically(self.site.run / "redis.url", server.url(), 0o600)
        return server.url()

    def _account(self) -> Account | None:
        try:
            return unprivileged_account()
        except LookupError as error:
            raise CannotStart(str(error)) from error

    def _start_simulator(self) -> None:
        """On a port that stays the same over restarts, because kubeconfigs and BMC addresses name it."""
        kept = self.site.run / "simulator.port"
        port = int(kept.read_text()) if kept.is_file() else 0
        if not port or not is_free(port):
            port = first_free(SIMULATOR_PORT)
            write_atomically(kept, str(port))
        self._simulator = f"http://127.0.0.1:{port}/"
        self.supervisor.add(plan.simulator(self.site, port, self.environment))

    def _wait_for_simulator(self) -> None:
        kubeconfig = self.site.var / "simulator" / "kubeconfig"
        self.supervisor.wait_for(
            lambda: kubeconfig.is_file() and ask(self._simulator, "/_sim/stats")[0] == 200, 60, "the simulator"
        )

    def _run_once(self, command: str) -> None:
        code = self.supervisor.once(plan.manage(self.site, command, command, environment=self.environment), timeout=300)
        if code != 0:
            raise CannotStart(f"`manage.py {command}` failed with code {code}, see {self.site.var}/log/{command}.log")

    def _look_after_observers(self) -> None:
        """One observer per cluster of the database; a database that does not answer changes nothing."""
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + CLUSTERS_EVERY
        names = self.clusters.names() if self.clusters else None
        if names is None:
            return
        running = {name.removeprefix("observer-") for name in self.supervisor.children if name.startswith("observer-")}
        for cluster in sorted(names - running):
            self.supervisor.add(plan.observer(self.site, cluster, self.environment))
        for cluster in sorted(running - names):
            self.supervisor.remove(f"observer-{cluster}")

    def _missing(self) -> str:
        """What keeps it from being ready, empty when nothing does."""
        status, said = ask(self.site.address, "/readyz")
        if status != 200:
            return f"/readyz answers {status or 'nothing'}: {said}"
        if self.site.demo:
            addressed = (self.site.run / f"observer-{plan.DEMO_CLUSTER}.url").is_file()
            if not addressed or plan.DEMO_CLUSTER not in self._watched():
                return f"the observer of {plan.DEMO_CLUSTER} does not hold its lease"
        return ""

    def _watched(self) -> frozenset[str]:
        return (self.clusters.watched() if self.clusters else None) or frozenset()

    def _look_whether_ready(self) -> None:
        """Until it is; a start that takes long is said once and goes on, because a cluster may be slow or away."""
        if self._announced or time.monotonic() < self._next_ask:
            return
        self._next_ask = time.monotonic() + READY_EVERY
        missing = self._missing()
        if not missing:
            self._announced = True
            self._announce()
        elif time.monotonic() > self._complain_at:
            self._complain_at = float("inf")
            self.supervisor.say(f"not ready yet: {missing}")

    def _announce(self) -> None:
        console = self.supervisor.console
        console.plain(f"ready {self.site.address}")
        if self.site.demo:
            password = (self.site.run / "demo.password").read_text(encoding="utf-8").strip()
            console.plain(f"log in as demo with the password {password}")
        else:
            console.plain("first account: .venv/bin/python manage.py user add NAME --role admin")
            console.plain("connect a cluster: .venv/bin/python manage.py cluster add NAME --kubeconfig FILE")

    def live(self) -> None:
        self.supervisor.run(self._each_turn)

    def _each_turn(self) -> None:
        self._look_after_observers()
        self._look_whether_ready()

    def stop(self) -> None:
        self.supervisor.say("stopping")
        if self.clusters is not None:
            self.clusters.close()
        self.supervisor.stop()
        if self._postgres is not None:
            self._postgres.settle()
        for name in ("database.url", "redis.url"):
            (self.site.run / name).unlink(missing_ok=True)


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="manage.py up", description="Run all of Muster on this machine.")
    parser.add_argument("--demo", action="store_true", help="with a simulated fleet instead of real clusters")
    options = parser.parse_args(argv)
    os.umask(0o022)  # the database's account must be able to pass; secrets are written with modes of their own
    try:
        site = plan.site_from_environment(options.demo)
        for directory in (site.run, site.var / "log"):
            directory.mkdir(parents=True, exist_ok=True)
        lock = take_lock(site.run)
    except (CannotStart, env.BadSetting, OSError) as error:
        print(f"muster: {error}", file=sys.stderr)
        return 1
    supervisor = Supervisor(site.var, Console())
    supervisor.install_signals()
    muster = Muster(site, supervisor)
    code = 0
    try:
        muster.start()
        muster.live()
    except Stopped:
        code = 130
    except (CannotStart, Unreachable, DatabaseFailure, CacheFailure, env.BadSetting, TimeoutError, OSError) as error:
        supervisor.say(f"cannot start: {error}")
        code = 1
    finally:
        muster.stop()
        lock.truncate(0)  # the file stays: removing it would let two starters lock two different files
        lock.close()
    return code
