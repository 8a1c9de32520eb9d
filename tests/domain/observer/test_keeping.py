"""Parts that exporters name are kept as rows: new ones at once, changed ones in turn."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Device, Node
from fleet.observer import keeping
from fleet.observer.keeping import Keeper
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.series import Part

pytestmark = pytest.mark.django_db
NODE = "gpu-r01-01"


def gpu(number: int, driver: str = "570") -> Part:
    attrs = {"index": str(number), "pci": f"00:{number:02}.0", "serial": f"S{number}-{driver}", "model": "H100"}
    return Part(f"GPU-{number}", "gpu", "", attrs)


@pytest.fixture
def keeper(session: Session) -> Keeper:
    frame = Frame()
    target = frame.target(NODE, "dcgm", 15.0)
    for number in range(5):
        frame.place(target, gpu(number))
    return Keeper(session, frame, Intake(frame), Refusals(), lambda nodes: None)


def test_new_parts_are_rows_at_once_and_are_not_written_again(keeper: Keeper) -> None:
    assert keeper.parts() == 5
    assert Device.objects.filter(kind="gpu").count() == 5
    keeper.frame.place(keeper.frame.targets[0], gpu(5))
    assert [keeper.parts() for _ in range(4)] == [1, 0, 0, 0]


@pytest.mark.parametrize("number", range(5))
def test_a_part_that_tells_something_else_of_itself_is_met_in_turn(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setattr(keeping, "LOOK", 2)
    keeper.parts()
    keeper.frame.place(keeper.frame.targets[0], gpu(number, driver="580"))
    assert sorted(keeper.parts() for _ in range(3)) == [0, 0, 1]
    assert Device.objects.get(key=f"GPU-{number}").serial == f"S{number}-580"


def test_a_part_whose_node_is_not_known_yet_is_met_later(session: Session, keeper: Keeper) -> None:
    known, session.node_ids = session.node_ids, {}
    assert keeper.parts() == 0
    session.node_ids = known
    assert keeper.parts() == 5


def test_many_parts_are_written_in_portions_that_leave_each_node_whole(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node's expected GPUs are counted from one portion; a fatal line waits for one portion only."""
    monkeypatch.setattr(keeping, "BATCH", 2)
    written: list[int] = []
    store = keeping.inventory.sync_devices
    monkeypatch.setattr(
        keeping.inventory, "sync_devices", lambda pk, seen, *rest: written.append(len(seen)) or store(pk, seen, *rest)
    )
    Node.objects.update(gpu_expected=None)
    other = keeper.frame.target("gpu-r01-02", "dcgm", 15.0)
    for number in range(5, 8):
        keeper.frame.place(other, gpu(number))
    assert keeper.parts() == 8 and keeper.parts() == 0
    assert sorted(written) == [3, 5]
    assert dict(Node.objects.values_list("name", "gpu_expected")) == {NODE: 5, "gpu-r01-02": 3}


def test_a_part_is_kept_with_its_driver_and_firmware(keeper: Keeper) -> None:
    """A port has the firmware of its adapter; what became another is written when its turn comes."""
    gpu_labels = {"UUID": "GPU-1", "DCGM_FI_DEV_VBIOS_VERSION": "96.1", "DCGM_FI_DEV_INFOROM_IMAGE_VER": "G520"}
    target = keeper.frame.targets[0]
    keeper.frame.place(target, Part("mlx5_0/1", "port", "", {}))
    keeper.frame.place(target, Part("GPU-1", "gpu", "", {"driver": "550"}))
    versions = keeper.frame.versions
    versions.of_gpu(NODE, "dcgm", gpu_labels)
    versions.of_metric(NODE, "node", "node_infiniband_info", {"device": "mlx5_0", "firmware_version": "28.39"})
    keeper.parts()
    assert Device.objects.get(key="GPU-1").versions == {"driver": "550", "VBIOS": "96.1", "InfoROM": "G520"}
    assert Device.objects.get(key="mlx5_0/1").versions == {"InfiniBand firmware": "28.39"}
    assert Device.objects.get(key="GPU-2").versions == {}
    versions.of_gpu(NODE, "dcgm", {**gpu_labels, "DCGM_FI_DEV_VBIOS_VERSION": "96.2"})
    keeper.parts()
    assert Device.objects.get(key="GPU-1").versions["VBIOS"] == "96.2"
