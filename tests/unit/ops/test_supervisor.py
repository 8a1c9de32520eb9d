"""The supervisor keeps processes running and leaves none."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from fleet.ops.children import Spec
from fleet.ops.output import Console
from fleet.ops.supervisor import Stopped, Supervisor
from tests.patience import PATIENCE, until

SLEEP = ["sleep", "600"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(600)",
]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    return tmp_path


@pytest.fixture
def supervisor(site: Path) -> Supervisor:
    return Supervisor(site, Console(io.StringIO()))


TELL = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print(time.monotonic())))
print("up", flush=True)
time.sleep(600)
"""


def pid_in(site: Path, name: str) -> int:
    return int((site / "run" / f"{name}.pid").read_text())


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split(") ")[1][0] != "Z"
    except FileNotFoundError:
        return False


def turn_until(supervisor: Supervisor, test: Callable[[], bool]) -> float:
    began = time.monotonic()
    while not test():
        assert time.monotonic() - began < PATIENCE, "it did not happen"
        supervisor.turn(0.02)
    return time.monotonic() - began


def test_a_killed_process_is_back_with_a_new_pid_file(supervisor: Supervisor, site: Path) -> None:
    supervisor.add(Spec("worker", SLEEP, site))
    first = pid_in(site, "worker")
    os.kill(first, signal.SIGKILL)
    took = turn_until(supervisor, lambda: pid_in(site, "worker") != first)
    assert took < 1
    assert alive(pid_in(site, "worker"))
    supervisor.stop()
    assert not (site / "run" / "worker.pid").exists()


def test_what_keeps_dying_waits_longer_each_time(supervisor: Supervisor, site: Path) -> None:
    child = supervisor.add(Spec("worker", ["false"], site))
    waits = []
    for _ in range(3):
        turn_until(supervisor, lambda: child.process is None)
        waits.append(child.due - time.monotonic())
        turn_until(supervisor, lambda: child.process is not None)
    assert waits[0] < 0.25 < waits[1] < 0.45 < waits[2] < 0.85
    supervisor.stop()


def test_a_program_that_does_not_exist_is_said_and_stops_nothing_else(supervisor: Supervisor, site: Path) -> None:
    supervisor.add(Spec("beat", ["/nowhere/beat"], site))
    worker = supervisor.add(Spec("worker", SLEEP, site))
    supervisor.turn(0.02)
    assert worker.process
    supervisor.stop()


def test_what_ignores_the_request_is_killed(supervisor: Supervisor, site: Path) -> None:
    supervisor.add(Spec("web", STUBBORN, site, patience=0.3))
    turn_until(supervisor, lambda: b"up" in (site / "log" / "web.log").read_bytes())
    pid = pid_in(site, "web")
    supervisor.stop()
    assert not alive(pid)


def test_stages_stop_in_order(supervisor: Supervisor, site: Path) -> None:
    supervisor.add(Spec("postgres", [sys.executable, "-c", TELL], site, stage=2))
    supervisor.add(Spec("web", [sys.executable, "-c", TELL], site, stage=0))
    logs = [site / "log" / "web.log", site / "log" / "postgres.log"]
    turn_until(supervisor, lambda: all(b"up" in log.read_bytes() for log in logs))
    supervisor.stop()
    ended = [float(log.read_text().split()[1]) for log in logs]
    assert ended == sorted(ended)


def test_a_command_that_runs_once_is_not_started_again(supervisor: Supervisor, site: Path) -> None:
    assert supervisor.once(Spec("prepare", ["sh", "-c", "echo done; exit 3"], site), timeout=5) == 3
    assert not supervisor.children
    assert (site / "log" / "prepare.log").read_text() == "done\n"


def test_a_wait_ends_when_somebody_asks_to_stop(supervisor: Supervisor) -> None:
    supervisor.asked = 1
    with pytest.raises(Stopped):
        supervisor.wait_for(lambda: False, 5, "nothing")


def test_a_wait_that_is_too_long_says_what_is_missing(supervisor: Supervisor) -> None:
    with pytest.raises(TimeoutError, match="postgres did not come up"):
        supervisor.wait_for(lambda: False, 0.05, "postgres", every=0.01)


def test_a_process_that_closed_its_output_does_not_keep_the_supervisor_busy(supervisor: Supervisor, site: Path) -> None:
    supervisor.add(Spec("worker", ["sh", "-c", "exec >&- 2>&-; sleep 600"], site))
    turn_until(supervisor, lambda: supervisor.children["worker"].output_closed)
    began = time.monotonic()
    supervisor.turn(0.2)
    assert time.monotonic() - began > 0.15
    supervisor.stop()


PROGRAM = """
import io, sys
from pathlib import Path
from fleet.ops.children import Spec
from fleet.ops.output import Console
from fleet.ops.supervisor import Supervisor
var = Path(sys.argv[1])
supervisor = Supervisor(var, Console())
supervisor.install_signals()
supervisor.add(Spec("worker", ["sleep", "600"], var))
print("started", flush=True)
supervisor.run(lambda: None)
supervisor.stop()
"""


def begin(site: Path, ignore_interrupt: bool = False) -> subprocess.Popen[str]:
    def hook() -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignore_interrupt else signal.SIG_DFL)

    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(site)],
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=hook,
        start_new_session=True,
    )
    assert program.stdout and program.stdout.readline() == "started\n"
    return program


def wait_gone(pid: int) -> None:
    until(lambda: not alive(pid))


def test_interrupt_stops_all_even_where_the_shell_had_it_ignored(site: Path) -> None:
    program = begin(site, ignore_interrupt=True)
    worker = pid_in(site, "worker")
    program.send_signal(signal.SIGINT)
    assert program.wait(PATIENCE) == 0
    wait_gone(worker)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends children with their parent")
def test_a_killed_supervisor_leaves_no_process(site: Path) -> None:
    program = begin(site)
    worker = pid_in(site, "worker")
    program.kill()
    program.wait(PATIENCE)
    wait_gone(worker)
