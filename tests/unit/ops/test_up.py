"""The start refuses what cannot work, and says why."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from fleet.ops import plan
from fleet.ops.output import Console
from fleet.ops.supervisor import Supervisor
from fleet.ops.up import CannotStart, Muster, main, take_lock


@pytest.fixture
def var(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MUSTER_VAR", str(tmp_path))
    (tmp_path / "run").mkdir()
    return tmp_path


def test_a_second_supervisor_is_refused_with_the_pid_of_the_first(
    var: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lock = take_lock(var / "run")
    assert main([]) == 1
    assert f"already runs here (supervisor pid {os.getpid()})" in capsys.readouterr().err
    lock.close()
    take_lock(var / "run").close()


def test_a_taken_port_is_said_with_who_has_it(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        monkeypatch.setenv("MUSTER_PORT", str(port))
        muster = Muster(plan.site_from_environment(demo=False), Supervisor(var, Console(io.StringIO())))
        with pytest.raises(CannotStart, match=f"port {port} is taken by pid {os.getpid()} "):
            muster.start()


def test_a_bad_setting_is_named_before_anything_starts(
    var: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MUSTER_PORT", "http")
    assert main([]) == 1
    assert "MUSTER_PORT='http' is not a number" in capsys.readouterr().err


def test_the_caller_s_own_values_win_over_the_demo_s(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_SOAK_SECONDS", "60")
    monkeypatch.delenv("MUSTER_SCRAPE_INTERVAL", raising=False)
    shared = plan.shared_environment(plan.site_from_environment(demo=True), "postgresql://x", "redis://x")
    assert "MUSTER_SOAK_SECONDS" not in shared
    assert shared["MUSTER_SCRAPE_INTERVAL"] == "10"


def test_a_real_site_gets_nothing_of_the_demo(var: Path) -> None:
    shared = plan.shared_environment(plan.site_from_environment(demo=False), "postgresql://x", "redis://x")
    assert not [name for name in shared if "DEMO" in name or "SOAK" in name]


def test_services_stop_before_the_data_centre_and_that_before_the_servers(var: Path) -> None:
    site = plan.site_from_environment(demo=True)
    stages = {spec.name: spec.stage for spec in plan.services(site, {})}
    assert set(stages) == {"web", "beat", "worker"}
    assert max(stages.values()) < plan.simulator(site, 1, {}).stage < plan.SERVERS
    assert plan.observer(site, "demo", {}).stage == plan.SERVICES
