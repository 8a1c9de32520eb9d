"""The web process as it runs in production: uvicorn in a process of its own, on the database of the test."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from django.db import connection

from tests.patience import PATIENCE, until


def database_url() -> str:
    """The URL of the test database, for a process that did not start from these settings."""
    known = connection.settings_dict
    user = quote(str(known["USER"]))
    password = f":{quote(str(known['PASSWORD']))}" if known["PASSWORD"] else ""
    host, port, name = str(known["HOST"]), known["PORT"], known["NAME"]
    if host.startswith("/"):
        return f"postgresql://{user}{password}@/{name}?host={quote(host)}" + (f"&port={port}" if port else "")
    return f"postgresql://{user}{password}@{host}:{port}/{name}"


FIRST_PORT, LAST_PORT = 20_000, 32_000  # the system gives none of these to whoever asks for any, nor to a client
_ports = itertools.count(os.getpid() * 97)  # workers start far from each other


def free_port() -> int:
    """One that stays free until the process that it is for has started."""
    for number in itertools.islice(_ports, LAST_PORT - FIRST_PORT):
        port = FIRST_PORT + number % (LAST_PORT - FIRST_PORT)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
            return port
    raise LookupError("no port is free")


@contextlib.contextmanager
def web_process(redis_url: str, log: Path, **settings: str) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """(base URL, process) of a server that answers; it is stopped at the end if the test did not do so."""
    port = free_port()
    env = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "fleet.settings",
        "DATABASE_URL": database_url(),
        "REDIS_URL": redis_url,
        **settings,
    }
    argv = [sys.executable, "-m", "uvicorn", "fleet.asgi:application", "--port", str(port), "--log-level", "warning"]
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env=env, stdout=out, stderr=out, cwd=Path(__file__).parent.parent)
    base = f"http://127.0.0.1:{port}"
    try:
        _wait(base, process, log)
        yield base, process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(base: str, process: subprocess.Popen[bytes], log: Path) -> None:
    def answers() -> bool:
        assert process.poll() is None, f"the web process did not start: {log.read_text(errors='replace')[-2000:]}"
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{base}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    until(answers)
