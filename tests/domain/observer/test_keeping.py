"""Parts that exporters name are kept as rows: new ones at once, changed ones in turn."""

from __future__ import annotations

import pytest

from fleet.inventory.models import Device
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
    attrs = {"index": str(number), "pci": f"00:{number:02}.0", "serial": f"S{number}-{driver}"}
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
