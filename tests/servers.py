"""One real PostgreSQL and one real Valkey for a whole test run.

Decides that the first process of the run starts them and that its children (pytest-xdist's workers) find them through
the environment. Refuses to touch servers that the caller named himself, and to leave its own behind.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Protocol

from fleet.ops.embedded.postgres import Postgres
from fleet.ops.embedded.valkey import Valkey
from fleet.ops.processes import spawn, unprivileged_account

FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


class Server(Protocol):
    def answers(self) -> bool: ...


def _start(argv: list[str], server: Server, var: Path, stdin: bytes = b"") -> subprocess.Popen[bytes]:
    account = getattr(server, "account", None)
    process = spawn(argv, env=os.environ, cwd=var, account=account, death_signal=signal.SIGQUIT, stdin=stdin)
    until = time.monotonic() + 30
    while not server.answers():
        if process.poll() is not None or time.monotonic() > until:
            said = process.stdout.read().decode(errors="replace") if process.stdout else ""
            raise RuntimeError(f"{argv[0]} did not start: {said[-2000:]}")
        time.sleep(0.02)
    return process


def _stop(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def ensure() -> None:
    """Set DATABASE_URL, REDIS_URL and MUSTER_VAR where they are not set, and start what they then need."""
    if "MUSTER_VAR" not in os.environ:
        var = Path(tempfile.mkdtemp(prefix="muster-tests-"))
        var.chmod(0o755)
        (var / "run").mkdir()
        os.environ["MUSTER_VAR"] = str(var)
        atexit.register(shutil.rmtree, var, ignore_errors=True)
    var = Path(os.environ["MUSTER_VAR"])
    account = unprivileged_account()
    base = None
    if not os.environ.get("DATABASE_URL"):
        postgres = Postgres(var, account, print, **FAST)
        postgres.prepare()
        base = postgres.base
        atexit.register(_stop, _start(postgres.command(), postgres, base), signal.SIGINT)
        postgres.ensure_database()
        os.environ["DATABASE_URL"] = postgres.url()
    if not os.environ.get("REDIS_URL"):
        os.environ["REDIS_URL"] = _start_valkey(Valkey(var, account, print), base, var)


def _start_valkey(valkey: Valkey, base: Path | None, var: Path) -> str:
    """Between finding a free port and binding it another run may take it: then find another."""
    for last in (False, False, True):
        valkey.prepare(base)
        try:
            process = _start(valkey.command(), valkey, var, valkey.configuration())
        except RuntimeError:
            if last:
                raise
            continue
        atexit.register(_stop, process, signal.SIGTERM)
        break
    return valkey.url()
