"""A rebuild through a real Ironic, and what it says while it works and when it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from fleet.adapters import ironic
from fleet.adapters.ironic.driver import IronicProvisioner
from fleet.ports.errors import Conflict, IdentityMismatch, PermanentError
from fleet.ports.provision import Phase, ProvisionTarget
from tests.labs.ironic import Ironic, programs, running

BMC = "https://10.0.0.1"
TARGET = ProvisionTarget("gpu-1", serial="SN-1", bmc_addresses=(BMC,))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ironic]:
    where = programs()
    if where is None:
        pytest.skip("Ironic is not installed: pip install ironic, and name its bin folder in MUSTER_TEST_IRONIC")
    with running(tmp_path_factory.mktemp("ironic"), where) as found:
        found.enroll("gpu-1", driver_info={"redfish_address": BMC}, extra={"serial": "SN-1"})
        yield found


@pytest.fixture
def port(server: Ironic) -> IronicProvisioner:
    return ironic.provisioner(ironic.Connection(server.url, lambda: ""))


def test_a_rebuild_begins_works_and_ends(server: Ironic, port: IronicProvisioner) -> None:
    assert port.check() == []
    before = port.observe(TARGET)
    assert (before.phase, before.refusals) == (Phase.PROVISIONED, ())
    port.submit(TARGET, "op-1", before)
    assert port.observe(TARGET).mark != before.mark
    with pytest.raises(Conflict):  # the same decision cannot be carried out twice
        port.submit(TARGET, "op-1", before)
    phases = [Phase.WORKING]
    ends = time.monotonic() + 30
    while phases[-1] != Phase.PROVISIONED and time.monotonic() < ends:
        phases.append(port.observe(TARGET).phase)
        time.sleep(0.1)
    assert set(phases) == {Phase.WORKING, Phase.PROVISIONED} and phases[-1] == Phase.PROVISIONED
    after = port.observe(TARGET)
    assert after.mark != before.mark and after.image == before.image


def test_a_rebuild_while_another_works_is_a_conflict(server: Ironic, port: IronicProvisioner) -> None:
    server.call("PUT", "/nodes/gpu-1/states/provision", {"target": "rebuild"})
    busy = port.observe(TARGET)
    with pytest.raises(Conflict):
        port.submit(TARGET, "op-2", busy)
    server.until("gpu-1", "active")


def test_another_serial_and_an_unknown_node_are_refused(port: IronicProvisioner) -> None:
    with pytest.raises(IdentityMismatch):
        port.observe(ProvisionTarget("gpu-1", serial="SN-2", bmc_addresses=(BMC,)))
    with pytest.raises(PermanentError, match="no node named"):
        port.observe(ProvisionTarget("gpu-9", serial="SN-1"))


def test_a_node_in_maintenance_is_not_ours_to_rebuild(server: Ironic, port: IronicProvisioner) -> None:
    server.call("PUT", "/nodes/gpu-1/maintenance", {"reason": "fan"})
    assert "fan" in port.observe(TARGET).refusals[0]
    server.call("DELETE", "/nodes/gpu-1/maintenance")
    assert port.observe(TARGET).refusals == ()
