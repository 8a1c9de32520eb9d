"""A whole Muster of its own for a benchmark: database, cache, simulated fleet and observer, each its own process.

Decides where they live (a folder that is removed again) and how they are measured: by the rows they commit and by what
the kernel says of their processes. Refuses the caller's database: what is measured must begin empty.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fleet.ops.embedded.postgres import Postgres
from fleet.ops.embedded.valkey import Valkey
from fleet.ops.processes import signal_group, spawn, unprivileged_account

ROOT = Path(__file__).resolve().parents[3]
NAME = "bench"
PUSH_PORT = 21470
TICKS = os.sysconf("SC_CLK_TCK")
PARTS = {
    "fleet.simulator": "simulator", "observe": "observer", "postgres": "database", "valkey": "cache",
    "celery": "worker",
}  # fmt: skip
Process = subprocess.Popen[bytes]


class BenchFailure(RuntimeError):
    """A part did not start or did not get ready in time."""


@dataclass
class Site:
    """What a benchmark may ask. `observer` is started by `observe`."""

    nodes: int
    var: Path
    env: dict[str, str]
    database: str
    children: list[Process] = field(default_factory=list)
    observer: Process | None = None
    began: float = 0.0

    @property
    def simulator(self) -> str:
        return (self.var / "simulator" / NAME / "url").read_text().strip()

    @property
    def push_url(self) -> str:
        return (self.var / "run" / f"observer-{NAME}.url").read_text().strip()

    def manage(self, *argv: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *argv], env=self.env, cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise BenchFailure(f"{argv[0]} failed: {(done.stderr or done.stdout).strip()[-500:]}")
        return done.stdout.strip()

    def start(self, argv: list[str], env: Mapping[str, str] | None = None, **how: Any) -> Process:
        process = spawn(argv, env=env or self.env, cwd=ROOT, **how)
        threading.Thread(target=_drain, args=(process,), daemon=True).start()
        self.children.append(process)
        return process

    def observe(self, interval: float) -> None:
        """Start the observer; its life begins now."""
        env = {**self.env, "MUSTER_SCRAPE_INTERVAL": f"{interval:g}"}
        self.began = time.monotonic()
        self.observer = self.start([sys.executable, "manage.py", "observe", NAME], env)

    def ask(self, sql: str) -> int:
        with psycopg.connect(self.database, autocommit=True) as link:
            row = link.execute(sql).fetchone()
            return int(row[0] or 0) if row else 0

    def until(self, sql: str, least: int, seconds: float) -> float:
        """When a count got there, as a monotonic time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.observer is not None and self.observer.poll() is not None:
                raise BenchFailure("the observer ended")
            if self.ask(sql) >= least:
                return time.monotonic()
            time.sleep(0.1)
        raise BenchFailure(f"not {least} within {seconds:.0f} s but {self.ask(sql)}: {sql}")

    def synced(self, seconds: float = 240.0, least_pods: int = 1) -> float:
        """Seconds from the observer's start until every node and the pods of all nodes are written."""
        self.until("SELECT count(*) FROM inventory_node WHERE gone_at IS NULL", self.nodes, seconds)
        return self.until("SELECT sum(pods) FROM inventory_node", least_pods, seconds) - self.began

    def judged(self, seconds: float = 400.0) -> float:
        """Seconds from its start until it knows how every node is."""
        known = "SELECT count(*) FROM health_nodeverdict WHERE verdict <> 'unknown'"
        return self.until(known, self.nodes, seconds) - self.began

    def cpu_seconds(self) -> float:
        assert self.observer is not None  # noqa: S101
        return _cpu_seconds(self.observer.pid)

    def cpu_by_part(self) -> dict[str, float]:
        """Seconds of CPU so far of the observer, the simulator, the database and the cache with all their children."""
        parts: dict[str, float] = {}
        for process in self.children:
            words = " ".join(map(str, process.args)) if isinstance(process.args, list) else str(process.args)
            name = next((part for mark, part in PARTS.items() if mark in words), "other")
            parts[name] = parts.get(name, 0.0) + sum(_cpu_seconds(pid) for pid in _family(process.pid))
        return parts

    def memory_mib(self, what: str = "VmHWM") -> float:
        assert self.observer is not None  # noqa: S101
        lines = Path(f"/proc/{self.observer.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024

    def node_names(self) -> list[str]:
        with psycopg.connect(self.database, autocommit=True) as link:
            return [str(row[0]) for row in link.execute("SELECT name FROM inventory_node ORDER BY name")]

    def samples_each(self) -> int:
        """Samples that the exporters of one node answer with."""
        node, count = self.node_names()[0], 0
        for job in ("dcgm", "node"):
            with urllib.request.urlopen(f"{self.simulator}/nodes/{node}/{job}/metrics", timeout=10) as answer:  # noqa: S310
                count += sum(not line.startswith(b"#") for line in answer.read().splitlines())
        return count


@contextlib.contextmanager
def servers(nodes: int) -> Iterator[Site]:
    """A database and a cache, both empty, in a folder that is removed again."""
    var = Path(tempfile.mkdtemp(prefix="muster-bench-"))
    var.chmod(0o755)
    (var / "run").mkdir()
    quiet = {key: value for key, value in os.environ.items() if not key.startswith("MUSTER_")}
    env = quiet | {
        "DJANGO_SETTINGS_MODULE": "fleet.settings", "MUSTER_VAR": str(var), "MUSTER_PUSH_PORT": str(PUSH_PORT),
        "MALLOC_ARENA_MAX": "2", "OPENBLAS_NUM_THREADS": "1",
    }  # fmt: skip
    here = Site(nodes, var, env, "")
    try:
        _servers(here)
        yield here
    finally:
        for process in reversed(here.children):
            _end(process)
        shutil.rmtree(var, ignore_errors=True)


@contextlib.contextmanager
def site(nodes: int, scenario: str = "calm", pods_per_node: int = 0) -> Iterator[Site]:
    """Everything but the observer runs, and the cluster is registered. The scenario begins with the simulator."""
    with servers(nodes) as here:
        var = here.var
        here.manage("prepare")
        argv = ["-m", "fleet.simulator", "--nodes", str(nodes), "--name", NAME, "--var", str(var)]
        argv += ["--scenario", scenario, "--pods-per-node", str(pods_per_node)]
        here.start([sys.executable, *argv])
        wait(lambda: (var / "simulator" / NAME / "url").is_file(), 120, "the simulator did not start")
        kubeconfig = str(var / "simulator" / NAME / "kubeconfig")
        here.manage("cluster", "add", NAME, "--kubeconfig", kubeconfig, "--selector", "*")
        token = str(var / "run" / f"push-{NAME}.token")
        here.manage("token", "create", "--scope", "push", "--cluster", NAME, "--out", token)
        yield here


def _servers(here: Site) -> None:
    account = unprivileged_account()
    postgres, valkey = Postgres(here.var, account, lambda text: None), Valkey(here.var, account, lambda text: None)
    postgres.prepare()
    here.start(postgres.command(), account=account, death_signal=signal.SIGQUIT)
    wait(postgres.answers, 30, "the database did not start")
    postgres.ensure_database()
    valkey.prepare(postgres.base)
    here.start(valkey.command(), account=account, stdin=valkey.configuration())
    wait(valkey.answers, 10, "the cache did not start")
    here.database = here.env["DATABASE_URL"] = postgres.url()
    here.env["REDIS_URL"] = valkey.url()


def own_process(module: str, env: Mapping[str, str], *arguments: str) -> Any:
    """What a module of this package prints as JSON, run by itself: nothing else is in its interpreter."""
    argv = [sys.executable, "-m", f"{__package__}.{module}", *arguments]
    done = subprocess.run(argv, env=dict(env), cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchFailure(f"{module} failed: {done.stderr.strip()[-800:]}")
    return json.loads(done.stdout)


def _family(pid: int) -> list[int]:
    """A process and its children; those of a database come and go."""
    children: list[int] = []
    with contextlib.suppress(OSError):
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [pid, *(found for child in children for found in _family(child))]


def _cpu_seconds(pid: int) -> float:
    """Of a process and of its children that have ended; 0 when it has ended itself."""
    try:
        parts = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, parts[11:15])) / TICKS


def wait(test: Callable[[], bool], seconds: float, problem: str) -> None:
    end = time.monotonic() + seconds
    while not test():
        if time.monotonic() > end:
            raise BenchFailure(problem)
        time.sleep(0.05)


def post(url: str, token: str, document: Any) -> int:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)  # noqa: S310
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
        return int(answer.status)


def _end(process: Process) -> None:
    """In order first: the database is the last of them."""
    process.send_signal(signal.SIGINT if "postgres" in str(process.args) else signal.SIGTERM)
    try:
        process.wait(8)
    except subprocess.TimeoutExpired:
        signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _drain(process: Process) -> None:
    """What a child says goes to our own standard error: a full pipe would stop it."""
    if process.stdout is not None:
        for line in process.stdout:
            text = line.decode(errors="replace")
            if "Traceback" in text or "failed" in text or "Error" in text:
                sys.stderr.write(text)
