"""A node that two schedulers keep books of: what the second one says counts beside what the first one does."""

from __future__ import annotations

from dataclasses import replace

from fleet.adapters.slurm.jobs import EVERY_TAINT
from fleet.gangs.diagnosis.packing import Space
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.diagnosis.starting import Starter
from fleet.gangs.roster import Roster
from fleet.observer.gangrooms import RoomBook
from fleet.ports.cluster import NodeSeen
from fleet.ports.gangs import Member, Need, Offer, Reading
from tests.builders import T0
from tests.gang_builders import a_member

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
    assert fits(rooms, RANK) == ["gpu-1", "gpu-2"]
    assert fits(rooms, Need(gpus=8)) == ["gpu-1"], "no pod gets there"


# -- Slinky: pods that are nodes of Slurm ----------------------------------------------------------------------

RANK = Need(gpus=8, selector=(("partition/train", ""),), tolerations=EVERY_TAINT)


def slurmd(node: str, gpus: int = 8) -> Member:
    return a_member(f"slurmd-{node}", node=node, need=Need(gpus=gpus), owner="NodeSet/train")


def fits(rooms: Rooms, need: Need) -> list[str]:
    """Nodes on which a member of this need would fit now."""
    starter, space = Starter(rooms), Space.now(rooms)
    may = starter.eligibility.of(need)
    return [
        name
        for n, name in enumerate(rooms.names)
        if may[n] and space.usable[n] and space.gpus["nvidia.com/gpu"][n] >= need.gpus
    ]


def test_a_gpu_that_a_slurmd_pod_has_counts_once() -> None:
    roster, book = Roster(), RoomBook()
    nodes = {f"gpu-{n}": seen(f"gpu-{n}") for n in (1, 2)}
    for name in nodes:
        roster.member(slurmd(name))
    busy = a_member("rank-0", node="gpu-1", need=RANK)
    offers = (replace(OFFER, gpus_used=8), replace(OFFER, node="gpu-2"))
    roster.reading(Reading(T0, members=(busy,), offers=offers), "slurm")
    rooms = book.rooms(nodes, roster, {})
    assert list(rooms.capacity["nvidia.com/gpu"]) == [8, 8]
    assert list(rooms.free["nvidia.com/gpu"]) == [0, 8]
    assert fits(rooms, RANK) == ["gpu-2"], "an idle slurmd takes a job of Slurm"
    assert fits(rooms, Need(gpus=8)) == [], "and no pod"


def test_a_slurmd_of_another_name_leaves_its_host_without_gpus_of_its_own() -> None:
    roster, book = Roster(), RoomBook()
    roster.member(slurmd("gpu-1"))
    told(roster, replace(OFFER, node="train-0"))
    rooms = book.rooms({"gpu-1": seen()}, roster, {})
    assert dict(zip(rooms.names, rooms.capacity["nvidia.com/gpu"].tolist(), strict=True)) == {"gpu-1": 0, "train-0": 8}
    assert fits(rooms, RANK) == ["train-0"] and fits(rooms, Need(gpus=8)) == []


def test_where_slurm_is_not_read_its_pods_are_pods_like_others() -> None:
    roster, book = Roster(), RoomBook()
    roster.member(slurmd("gpu-1"))
    rooms = book.rooms({"gpu-1": seen()}, roster, {})
    assert (list(rooms.capacity["nvidia.com/gpu"]), list(rooms.free["nvidia.com/gpu"])) == ([8], [0])


def test_a_node_that_is_given_to_slurm_and_taken_back_changes_hands() -> None:
    roster, book = Roster(), RoomBook()
    nodes = {"gpu-1": seen()}
    told(roster, OFFER)
    assert fits(book.rooms(nodes, roster, {}), Need(gpus=8)) == ["gpu-1"]
    roster.member(slurmd("gpu-1"))
    assert fits(book.rooms(nodes, roster, {}), Need(gpus=8)) == []
    roster.leave(slurmd("gpu-1").key)
    assert fits(book.rooms(nodes, roster, {}), Need(gpus=8)) == ["gpu-1"]


def test_taints_of_kubernetes_keep_no_job_of_slurm_away_and_a_cordon_does() -> None:
    roster, book = Roster(), RoomBook()
    roster.member(slurmd("gpu-1"))
    told(roster, OFFER)
    tainted = seen(taints=(("slinky", "true", "NoSchedule"),))
    assert fits(book.rooms({"gpu-1": tainted}, roster, {}), RANK) == ["gpu-1"]
    assert fits(book.rooms({"gpu-1": seen(unschedulable=True)}, roster, {}), RANK) == []


def test_a_part_of_a_node_stays_in_the_books_of_both() -> None:
    roster, book = Roster(), RoomBook()
    roster.member(slurmd("gpu-1", gpus=4))
    told(roster, replace(OFFER, gpus=4))
    rooms = book.rooms({"gpu-1": seen()}, roster, {})
    assert fits(rooms, Need(gpus=4)) == ["gpu-1"] and fits(rooms, Need(gpus=8)) == []
