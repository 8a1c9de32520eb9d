"""The management commands: orders reach the simulator, refusals are sentences and exit codes."""

import socket
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from fleet.simulator.options import Options
from tests.unit.simulator.client import Client

NODE = "gpu-r01-01"


def test_inject_breaks_and_mends(
    fleet: Client, options: Options, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.VAR = options.var
    call_command("inject", "xid79", "--node", NODE, "--device", "3")
    assert "nvidia3" not in fleet.metrics(NODE).text
    call_command("inject", "xid79", "--node", NODE, "--device", "3", "--clear")
    assert "nvidia3" in fleet.metrics(NODE).text
    call_command("inject", "watch_cut")
    out = capsys.readouterr().out.splitlines()
    assert out == [f"injected xid79 on {NODE}", f"cleared xid79 on {NODE}", "injected watch_cut on the fleet"]


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (["nonsense", "--node", NODE], "known faults: aer, bmc_500"),
        (["xid79", "--node", "nobody"], "unknown node 'nobody'"),
        (["xid79"], "unknown node ''"),
        (["xid79", "--node", NODE, "--device", "9"], "devices 0 to 7"),
        (["xid79", "--node", NODE, "--name", "east"], "the simulator 'east' is not running"),
    ],
)
def test_inject_says_what_is_wrong(fleet: Client, options: Options, settings: Any, order: list[str], said: str) -> None:
    settings.VAR = options.var
    with pytest.raises(CommandError, match=said):
        call_command("inject", *order)


def test_inject_when_nobody_listens_any_more(tmp_path: Path, settings: Any) -> None:
    settings.VAR = tmp_path
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        (tmp_path / "simulator").mkdir()
        (tmp_path / "simulator" / "url").write_text(f"http://127.0.0.1:{sock.getsockname()[1]}\n")
        with pytest.raises(CommandError, match="does not answer"):
            call_command("inject", "xid79", "--node", NODE)


def test_simulate_refuses_what_cannot_work(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no scenario 'nonsense'") as refused:
        call_command("simulate", "--scenario", "nonsense", "--var", str(tmp_path))
    assert refused.value.returncode == 1
    with pytest.raises(CommandError, match="--nodes 0"):
        call_command("simulate", "--nodes", "0", "--var", str(tmp_path))
    with pytest.raises(CommandError, match="--pods-per-node 111"):
        call_command("simulate", "--pods-per-node", "111", "--var", str(tmp_path))
