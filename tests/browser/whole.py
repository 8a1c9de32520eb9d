"""The whole of Muster, as `make demo` runs it: `manage.py up --demo` in a process of its own, with data of its own.

Decides ports, folder and speed, and waits until it says that it is ready. Refuses to share anything with the test run's
own database, and to leave a process behind.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.patience import until
from tests.web import free_port

ROOT = Path(__file__).parent.parent.parent
READY_WITHIN = 180.0
STOPPED_WITHIN = 20.0
OF_THE_TEST_RUN = ("DATABASE_URL", "REDIS_URL", "DJANGO_SETTINGS_MODULE", "MUSTER_VAR")


@dataclass(frozen=True)
class Muster:
    """A running one: where its pages are, what it said, and its command line."""

    base: str
    var: Path
    log: Path
    env: dict[str, str]

    @property
    def password(self) -> str:
        return (self.var / "run" / "demo.password").read_text(encoding="utf-8").strip()

    def manage(self, *words: str) -> str:
        """What `manage.py WORDS` prints; it must succeed."""
        argv = [sys.executable, "manage.py", *words]
        done = subprocess.run(argv, cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=READY_WITHIN)
        assert done.returncode == 0, f"manage.py {' '.join(words)}: {done.stderr[-1000:]}"
        return done.stdout


@contextlib.contextmanager
def running_muster(*options: str, **settings: str) -> Iterator[Muster]:
    """`manage.py up OPTIONS`, ready. `settings` are environment variables."""
    var = Path(tempfile.mkdtemp(prefix="muster-whole-"))
    var.chmod(0o755)  # started by root, the database runs as another user
    port = free_port()
    env = {name: value for name, value in os.environ.items() if name not in OF_THE_TEST_RUN}
    env |= {"MUSTER_VAR": str(var), "MUSTER_PORT": str(port), "MUSTER_PUSH_PORT": str(free_port()), **settings}
    log = var / "up.log"
    with log.open("wb") as out:
        argv = [sys.executable, "manage.py", "up", *options]
        process = subprocess.Popen(argv, cwd=ROOT, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        _wait_until_ready(process, log)
        yield Muster(f"http://127.0.0.1:{port}", var, log, env)
    finally:
        _stop(process)
        shutil.rmtree(var, ignore_errors=True)


def _wait_until_ready(process: subprocess.Popen[bytes], log: Path) -> None:
    def ready() -> bool:
        said = log.read_text(errors="replace")
        assert process.poll() is None, f"it did not get ready: {said[-3000:]}"
        return "ready http" in said

    until(ready, READY_WITHIN, every=0.1)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """As Ctrl-C does; whatever is then left of its session is killed."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOPPED_WITHIN)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
