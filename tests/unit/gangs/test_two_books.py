"""A node that two schedulers keep books of: what the second one says counts beside what the first one does."""

from __future__ import annotations

from dataclasses import replace

from fleet.gangs.roster import Roster
from fleet.observer.gangrooms import RoomBook
from fleet.ports.cluster import NodeSeen
from fleet.ports.gangs import Offer, Reading
from tests.builders import T0

OFFER = Offer("gpu-1", 8, 0, 64_000, 0, 512_000, 0, partitions=("train", "debug"))


def seen(name: str = "gpu-1", **fields: object) -> NodeSeen:
    plain = NodeSeen(
        name=name, uid=name, resource_version="1", unschedulable=False, ready=True, ready_reason="", ready_since=None,
        heartbeat_at=None, boot_id="b", machine_id="", system_uuid="", provider_id="", kernel="", os_image="",
        kubelet="", addresses=(), labels={"rack": "r1"}, annotations={}, taints=(), conditions={}, gpu_capacity=8,
        gpu_allocatable=8, created_at=None, allocatable=(("nvidia.com/gpu", 8),),
    )  # fmt: skip
    return replace(plain, **fields)  # type: ignore[arg-type]


def told(roster: Roster, *offers: Offer) -> None:
    roster.reading(Reading(T0, offers=offers), "slurm")


def test_partitions_are_labels_of_the_room_beside_its_own() -> None:
    roster, book = Roster(), RoomBook()
    told(roster, OFFER)
    rooms = book.rooms({"gpu-1": seen()}, roster, {})
    assert rooms.rows[0].labels == {"rack": "r1", "partition/train": "", "partition/debug": ""}
    assert list(rooms.usable) == [True]


def test_a_node_that_the_second_keeps_out_is_out_with_its_words_and_comes_back() -> None:
    roster, book = Roster(), RoomBook()
    nodes = {"gpu-1": seen()}
    told(roster, replace(OFFER, out="DRAIN+IDLE: xid 79"))
    (room,) = book.rooms(nodes, roster, {}).rows
    assert room.out is not None and room.out.text == "DRAIN+IDLE: xid 79"
    told(roster, OFFER)
    assert book.rooms(nodes, roster, {}).rows[0].out is None


def test_a_node_that_only_the_first_keeps_out_is_out_too() -> None:
    roster, book = Roster(), RoomBook()
    told(roster, OFFER)
    assert book.rooms({"gpu-1": seen(unschedulable=True)}, roster, {}).rows[0].out is not None


def test_a_node_that_only_the_second_knows_is_a_room_of_its_own() -> None:
    roster, book = Roster(), RoomBook()
    told(roster, OFFER, replace(OFFER, node="gpu-2"))
    rooms = book.rooms({"gpu-1": seen()}, roster, {})
    assert rooms.names == ["gpu-1", "gpu-2"] and rooms.rows[1].labels == {"partition/train": "", "partition/debug": ""}
