"""The same driver against a BMC that others wrote: sushy-emulator with its fake driver."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from fleet.adapters import redfish
from fleet.ports.errors import IdentityMismatch, PermanentError
from fleet.ports.power import BmcTarget, PowerState, PowerVerb
from tests.patience import until

PROGRAM = Path(sys.executable).with_name("sushy-emulator")
FIRST, SECOND = "c7a5fdbd-cdaf-9455-926a-d65c16db1809", "58893887-8974-2487-2389-841168418919"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="sushy-tools is not installed")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("emulator")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    systems = [
        {
            "uuid": uuid,
            "name": f"gpu-000{n}",
            "power_state": "On",
            "nics": [{"mac": f"02:00:00:00:00:0{n}", "ip": "::1"}],
        }
        for n, uuid in enumerate((FIRST, SECOND), 1)
    ]
    config = folder / "emulator.conf"
    config.write_text(
        f"SUSHY_EMULATOR_FAKE_DRIVER=True\nSUSHY_EMULATOR_STATE_DIR={str(folder)!r}\n"
        f"SUSHY_EMULATOR_FAKE_SYSTEMS={systems!r}\n"
    )
    command = [str(PROGRAM), "--config", str(config), "--fake", "-i", "127.0.0.1", "-p", str(port)]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        address = f"http://127.0.0.1:{port}"
        try:
            _wait(f"{address}/redfish/v1/", process)
            yield address
        finally:
            process.kill()


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert process.poll() is None, "sushy-emulator did not start"
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):
            return True
        return False

    until(answers)


def machine(address: str, uuid: str) -> BmcTarget:
    return BmcTarget(1, "gpu-1", address, "u", "p", True, uuid, "")


def test_the_pinned_system_is_read_and_reset(emulator: str) -> None:
    power = redfish.power()
    seen = power.observe(machine(emulator, SECOND.upper()), 6)
    assert (seen.state, seen.uuid) == (PowerState.ON, SECOND)
    assert "ForceRestart" in seen.resets and "PowerCycle" not in seen.resets
    assert power.reset(machine(emulator, FIRST), PowerVerb.FORCE_RESTART, 6).uuid == FIRST


def test_what_it_does_not_offer_is_not_sent(emulator: str) -> None:
    with pytest.raises(PermanentError) as caught:
        redfish.power().reset(machine(emulator, FIRST), PowerVerb.POWER_CYCLE, 6)
    assert caught.value.code == "reset_unsupported"


def test_a_stranger_is_not_reset(emulator: str) -> None:
    with pytest.raises(IdentityMismatch):
        redfish.power().reset(machine(emulator, "0" * 31 + "1"), PowerVerb.FORCE_RESTART, 6)
