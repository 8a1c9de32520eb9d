"""Starting and stopping, as people and accidents do it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.labs.live import ROOT, Live, until

NOBODY = 65534
AGAIN_WITHIN = 25.0


@pytest.fixture
def calm() -> Iterator[Live]:
    with Live(nodes=32) as live:
        yield live


def test_a_second_start_on_the_same_folder_and_a_taken_port_are_said(calm: Live) -> None:
    second = calm.spawn()
    assert second.wait(20) == 1
    assert f"Muster already runs here (supervisor pid {calm.process.pid})" in calm.said()  # type: ignore[union-attr]
    other = Live(nodes=32, MUSTER_PORT=str(calm.port))
    try:
        assert other.spawn().wait(20) == 1
        assert f"port {calm.port} is taken by pid {calm.pid('web')}" in other.said()
        assert other.family() == {}
    finally:
        shutil.rmtree(other.folder)
    assert calm.process is not None and calm.process.poll() is None


def test_a_port_taken_by_something_else_names_it(tmp_path: Path) -> None:
    live = Live(nodes=32)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", live.port))
        taken.listen(1)
        assert live.spawn().wait(20) == 1
    said = live.said()
    shutil.rmtree(live.folder)
    assert f"port {live.port} is taken by pid {os.getpid()}" in said and "MUSTER_PORT" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_to_stop_leaves_no_process(number: signal.Signals) -> None:
    with Live(nodes=32) as live:
        assert live.process is not None
        os.kill(live.process.pid, number)
        live.process.wait(20)
        assert live.family() == {}


def test_ctrl_c_during_the_start_leaves_no_process() -> None:
    live = Live(nodes=32)
    try:
        for after in (0.5, 2.0, 4.0):
            starting = live.spawn()
            until(lambda: False, after)
            os.killpg(starting.pid, signal.SIGINT)
            starting.wait(20)
            assert live.family() == {}, after
    finally:
        live.stop()
        shutil.rmtree(live.folder)


def test_kill_9_of_the_supervisor_leaves_no_process_and_loses_nothing(calm: Live) -> None:
    node = calm.nodes()[3]["metadata"]["name"]
    boot = calm.boot_id(node)
    calm.inject("xid79", node, 1)
    assert until(lambda: calm.healed(node, boot), 90, 0.5) is not None
    assert calm.process is not None
    calm.process.kill()
    calm.process.wait()
    assert until(lambda: not calm.family(), 10, 0.1) is not None, calm.family()
    took = calm.start()
    print("ready again after", took)
    assert took <= AGAIN_WITHIN
    assert [row["state"] for row in calm.workflows(node)] == ["succeeded"]
    assert calm.manage("audit", "verify").returncode == 0


def test_a_plain_user_gets_a_demo_from_make() -> None:
    """In a copy of the tree that belongs to that user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user; whoever runs this is a plain user already")
    copy = Path(tempfile.mkdtemp(prefix="muster-lab-user-"))
    copy.chmod(0o755)
    try:
        _copy_tree(copy)
        paths = {"HOME": str(copy), "LD_LIBRARY_PATH": str(copy / "python" / "lib")}
        live = Live(nodes=32, root=copy, user=NOBODY, **paths)
        try:
            live.start("make", "-o", ".venv/.installed", "demo")
            owners = {Path(f"/proc/{pid}").stat().st_uid for pid in live.family()}
            assert owners == {NOBODY}
            node = live.nodes()[3]["metadata"]["name"]
            boot = live.boot_id(node)
            live.inject("xid79", node, 1)
            assert until(lambda: live.healed(node, boot), 90, 0.5) is not None
        finally:
            left = live.stop()
            shutil.rmtree(live.folder, ignore_errors=True)
        assert left == []
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _copy_tree(copy: Path) -> None:
    """The files under version control, an interpreter that everybody may run, and the packages of this run."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    python, version = copy / "python", f"python{sys.version_info.major}.{sys.version_info.minor}"
    unneeded = shutil.ignore_patterns("test", "site-packages", "*.a", "share", "include", "__pycache__")
    shutil.copytree(sys.base_prefix, python, symlinks=True, ignore=unneeded)
    subprocess.run([python / "bin" / version, "-m", "venv", "--without-pip", copy / ".venv"], check=True)
    packages = Path("lib") / version / "site-packages"
    (copy / ".venv" / packages / "of_this_run.pth").write_text(f"{Path(sys.prefix).resolve() / packages}\n")
    for path in (copy, *copy.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
