"""One supervised process: how it starts, and when it may start again after it died.

Decides the back-off (0.2 s doubling to 5 s, forgotten after 30 s of life). Refuses to decide which processes there
are (`plan`) and in what order they start and stop (`supervisor`, `up`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fleet.ops.output import Console, RotatingLog
from fleet.ops.processes import Account, signal_group, spawn, write_atomically

FIRST_DELAY = 0.2
LONGEST_DELAY = 5.0  # with the slowest start, a process is back within fifteen seconds however often it died
STEADY_AFTER = 30.0
LOUD = re.compile("ERROR|FATAL|PANIC")  # what a quiet process may say on the terminal
EXPECTED = re.compile("is starting up|is not yet accepting|is shutting down|due to administrator command")


@dataclass(frozen=True)
class Spec:
    """What a process is. `stage` orders the stop: lower ends first, equal together."""

    name: str
    argv: list[str]
    cwd: Path
    stage: int = 0
    env: Mapping[str, str] = field(default_factory=dict)
    account: Account | None = None
    stdin: bytes = b""
    stop_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL
    patience: float = 5.0
    quiet: bool = False
    before: Callable[[], None] | None = None


class Child:
    """A spec, its running process if there is one, and when it is due again."""

    def __init__(self, spec: Spec, var: Path, console: Console) -> None:
        self.spec = spec
        self.wanted = True
        self.process: subprocess.Popen[bytes] | None = None
        self.due = 0.0
        self.restarts = 0
        self.once = False
        self.code: int | None = None
        self.output_closed = False
        self._delay = FIRST_DELAY
        self._started = 0.0
        self._pid_file = var / "run" / f"{spec.name}.pid"
        self._console = console
        self._log = RotatingLog(var / "log" / f"{spec.name}.log")
        self._rest = b""

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    @property
    def descriptor(self) -> int:
        if self.process is None or self.process.stdout is None:
            raise RuntimeError(f"{self.spec.name} has no output: it is not running")
        return self.process.stdout.fileno()

    def start(self, now: float) -> None:
        """Start, or count a failed start like a death."""
        spec = self.spec
        try:
            if spec.before:
                spec.before()
            self.process = spawn(
                spec.argv,
                env={**os.environ, **spec.env},
                cwd=spec.cwd,
                account=spec.account,
                death_signal=spec.death_signal,
                stdin=spec.stdin,
            )
        except Exception as error:  # whatever stops a start must not stop the other processes
            self._console.line(spec.name, f"cannot start: {error}")
            self._plan_next(now)
            return
        os.set_blocking(self.descriptor, False)
        self.output_closed = False
        self._started = now
        write_atomically(self._pid_file, f"{self.process.pid}\n")

    def _plan_next(self, now: float) -> None:
        self.due = now + self._delay
        self._delay = min(self._delay * 2, LONGEST_DELAY)
        self.restarts += 1

    def reap(self, now: float) -> int | None:
        """The exit code if it has ended since the last look; then the next start is planned."""
        if self.process is None:
            return None
        code = self.process.poll()
        if code is None:
            return None
        self.drain()
        if self._rest:
            self._put(self._rest)
            self._rest = b""
        if self.process.stdout:
            self.process.stdout.close()
        signal_group(self.process.pid, signal.SIGKILL)  # what it left behind in its session
        self.process = None
        self.code = code
        self.wanted = self.wanted and not self.once
        if now - self._started >= STEADY_AFTER:
            self._delay = FIRST_DELAY
        self._plan_next(now)
        return code

    def drain(self) -> None:
        """Move what the process has said so far to the terminal and the log."""
        while True:
            try:
                data = os.read(self.descriptor, 65536)
            except OSError:  # nothing more for now
                return
            if not data:
                self.output_closed = True
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                self._put(line)
            if len(self._rest) > 65536:
                self._put(self._rest)
                self._rest = b""

    def _put(self, line: bytes) -> None:
        self._log.write(line + b"\n")
        text = line.decode(errors="replace").rstrip()
        if text and (not self.spec.quiet or (LOUD.search(text) and not EXPECTED.search(text))):
            self._console.line(self.spec.name, text)

    def ask_to_stop(self) -> None:
        self.wanted = False
        if self.process:
            try:
                self.process.send_signal(self.spec.stop_signal)
            except ProcessLookupError:
                return

    def end(self) -> None:
        self.wanted = False
        if self.process:
            signal_group(self.process.pid, signal.SIGKILL)

    def forget(self) -> None:
        self._pid_file.unlink(missing_ok=True)
        self._log.close()
