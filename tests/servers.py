"""One real PostgreSQL and one real Valkey for a whole test run.

Decides that the first process of the run starts them and that its workers find the database through the environment.
Refuses to touch servers that the caller named himself, and to leave its own behind.
"""

from __future__ import annotations

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Protocol

from fleet.ops.embedded.postgres import Postgres
from fleet.ops.embedded.valkey import Valkey
from fleet.ops.processes import spawn, unprivileged_account
from tests.patience import PATIENCE

OURS = "MUSTER_TEST_OURS"  # which of the variables below were set here, for the workers of this run
FAST = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


class Server(Protocol):
    def answers(self) -> bool: ...


def _start(argv: list[str], server: Server, var: Path, stdin: bytes = b"") -> subprocess.Popen[bytes]:
    account = getattr(server, "account", None)
    process = spawn(argv, env=os.environ, cwd=var, account=account, death_signal=signal.SIGQUIT, stdin=stdin)
    until = time.monotonic() + PATIENCE
    while not server.answers():
        if process.poll() is not None or time.monotonic() > until:
            said = process.stdout.read().decode(errors="replace") if process.stdout else ""
            raise RuntimeError(f"{argv[0]} did not start: {said[-2000:]}")
        time.sleep(0.02)
    threading.Thread(target=_drain, args=(process,), daemon=True).start()
    return process


def _drain(process: subprocess.Popen[bytes]) -> None:
    """Each refused statement is logged; a full pipe would stop the server in the middle of its answer."""
    if process.stdout is not None:
        for _line in process.stdout:
            pass


def _stop(process: subprocess.Popen[bytes], number: int) -> None:
    process.send_signal(number)
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _own_folder() -> Path:
    var = Path(tempfile.mkdtemp(prefix="muster-tests-"))
    var.chmod(0o755)
    (var / "run").mkdir()
    atexit.register(shutil.rmtree, var, ignore_errors=True)
    return var


def _start_valkey(var: Path, base: Path | None) -> str:
    """Again on another port when somebody took ours between looking and binding."""
    for attempt in range(5):
        valkey = Valkey(var, unprivileged_account(), print)
        valkey.prepare(base)
        try:
            process = _start(valkey.command(), valkey, var, valkey.configuration())
        except RuntimeError:
            if attempt == 4:
                raise
            continue
        atexit.register(_stop, process, signal.SIGTERM)
        return valkey.url()
    raise AssertionError


def ensure() -> None:
    """Set DATABASE_URL, REDIS_URL and MUSTER_VAR where the caller did not, and start what they then need.

    Workers of pytest-xdist share the PostgreSQL, where each has a database. Each has a Valkey and a folder of its own,
    because channels are heard in every database of a Valkey.
    """
    ours = set(os.environ.get(OURS, "").split())
    ours |= {name for name in ("DATABASE_URL", "REDIS_URL", "MUSTER_VAR") if not os.environ.get(name)}
    base = None
    if "MUSTER_VAR" in ours:
        os.environ["MUSTER_VAR"] = str(_own_folder())
    var = Path(os.environ["MUSTER_VAR"])
    if "DATABASE_URL" in ours and OURS not in os.environ:
        postgres = Postgres(var, unprivileged_account(), print, **FAST)
        postgres.prepare()
        base = postgres.base
        atexit.register(_stop, _start(postgres.command(), postgres, base), signal.SIGINT)
        postgres.ensure_database()
        os.environ["DATABASE_URL"] = postgres.url()
    if "REDIS_URL" in ours:
        os.environ["REDIS_URL"] = _start_valkey(var, base)
    os.environ[OURS] = " ".join(sorted(ours))
