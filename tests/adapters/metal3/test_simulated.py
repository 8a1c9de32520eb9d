"""A whole reprovision through the API server of a simulated fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet.adapters import kubernetes, metal3
from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.adapters.metal3.driver import Metal3Provisioner
from fleet.ports.errors import Conflict, IdentityMismatch, PermanentError
from fleet.ports.provision import Phase, ProvisionSeen, ProvisionTarget
from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.patience import until
from tests.unit.simulator.client import MERGE, Client

NODE = "gpu-r01-01"
HOST = f"/apis/metal3.io/v1alpha1/namespaces/metal3/baremetalhosts/{NODE}"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(nodes=16, var=tmp_path, speed=40, bmc_latency=0.2)


@pytest.fixture
def fleet(options: Options) -> Iterator[Client]:
    with running(options) as simulator:
        yield Client(simulator)


@pytest.fixture
def port(fleet: Client, options: Options) -> Metal3Provisioner:
    return metal3.provisioner(kubernetes.custom_objects(str(options.folder / "act.kubeconfig")), "metal3")


@pytest.fixture
def reader(fleet: Client, options: Options) -> KubernetesReader:
    return kubernetes.reader(str(options.folder / "kubeconfig"))


def target(fleet: Client, **more: Any) -> ProvisionTarget:
    serial = fleet.get(HOST)["status"]["hardware"]["systemVendor"]["serialNumber"]
    return ProvisionTarget(**{"node": NODE, "serial": serial, **more})


def once(port: Metal3Provisioner, about: ProvisionTarget, holds: Callable[[ProvisionSeen], bool]) -> ProvisionSeen:
    return until(lambda: seen if holds(seen := port.observe(about)) else None)


def test_a_host_is_emptied_installed_anew_and_boots(
    fleet: Client, port: Metal3Provisioner, reader: KubernetesReader
) -> None:
    about, boot = target(fleet), reader.node(NODE).boot_id
    assert port.check() == []
    before = port.observe(about)
    assert (before.phase, before.host, before.refusals) == (Phase.PROVISIONED, NODE, ())
    port.submit(about, "op-1", before)
    assert port.observe(about).op_id == "op-1"
    halfway = once(port, about, lambda seen: seen.phase == Phase.HALFWAY)
    assert halfway.op_id == "op-1" and halfway.mark != before.mark
    port.submit(about, "op-1", halfway)
    after = once(port, about, lambda seen: seen.phase == Phase.PROVISIONED)
    assert (after.image, after.op_id) == (before.image, "op-1") and after.mark != before.mark
    until(lambda: (node := reader.node(NODE)).boot_id != boot and node.ready is True)
    assert fleet.stats()["provisions"] == {NODE: 1}
    assert "muster.dev/reprovision-image" not in fleet.get(HOST)["metadata"]["annotations"]


def test_a_request_decided_on_an_older_reading_is_a_conflict(fleet: Client, port: Metal3Provisioner) -> None:
    about = target(fleet)
    old = port.observe(about)
    fleet.call("PATCH", HOST, {"metadata": {"labels": {"a": "b"}}}, MERGE)
    with pytest.raises(Conflict):
        port.submit(about, "op-1", old)
    assert fleet.get(HOST)["spec"]["image"]


def test_the_same_request_twice_empties_the_host_once(fleet: Client, port: Metal3Provisioner) -> None:
    about = target(fleet)
    seen = port.observe(about)
    port.submit(about, "op-1", seen)
    with pytest.raises(Conflict):
        port.submit(about, "op-1", seen)


def test_an_installation_that_fails_is_told_in_its_own_words(fleet: Client, port: Metal3Provisioner) -> None:
    about = target(fleet)
    fleet.inject("provision_error", NODE)
    port.submit(about, "op-1", port.observe(about))
    port.submit(about, "op-1", once(port, about, lambda seen: seen.phase == Phase.HALFWAY))
    failed = once(port, about, lambda seen: seen.phase == Phase.FAILED)
    assert "write_image failed" in failed.error


def test_a_host_is_found_by_its_bmc_and_never_by_its_name_alone(fleet: Client, port: Metal3Provisioner) -> None:
    bmc = f"{fleet.simulator.address}/bmc/{NODE}"
    assert port.observe(ProvisionTarget("another-name", bmc_addresses=(bmc,))).host == NODE
    with pytest.raises(PermanentError, match="no BareMetalHost"):
        port.observe(ProvisionTarget(NODE))
    with pytest.raises(PermanentError, match="no BareMetalHost"):
        port.observe(ProvisionTarget(NODE, serial="SN-nobody"))
    with pytest.raises(IdentityMismatch, match="pinned to SN-other"):
        port.observe(ProvisionTarget(NODE, serial="SN-other", bmc_addresses=(bmc,)))


@pytest.mark.parametrize(
    ("patch", "word"),
    [
        ({"spec": {"consumerRef": {"kind": "Metal3Machine", "name": "m-1"}}}, "Metal3Machine m-1 owns"),
        ({"metadata": {"annotations": {"baremetalhost.metal3.io/detached": ""}}}, "detached"),
        ({"spec": {"externallyProvisioned": True}}, "externally provisioned"),
    ],
)
def test_what_another_owns_or_nobody_may_install_is_said(
    fleet: Client, port: Metal3Provisioner, patch: Any, word: str
) -> None:
    fleet.call("PATCH", HOST, patch, MERGE)
    assert any(word in said for said in port.observe(target(fleet)).refusals)


def test_an_image_that_somebody_took_out_of_its_annotation_is_for_people(
    fleet: Client, port: Metal3Provisioner
) -> None:
    about = target(fleet)
    port.submit(about, "op-1", port.observe(about))
    seen = once(port, about, lambda seen: seen.phase == Phase.HALFWAY)
    broken = {"metadata": {"annotations": {"muster.dev/reprovision-image": "{"}}}
    fleet.call("PATCH", HOST, broken, MERGE)
    with pytest.raises(PermanentError, match="lost the annotation"):
        port.submit(about, "op-1", once(port, about, lambda now: now.version != seen.version))
