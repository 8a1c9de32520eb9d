"""Slurm's words for GPUs and for why a job waits, as clusters of all kinds write them."""

from __future__ import annotations

from typing import Any

import pytest

from fleet.adapters.slurm import jobs, nodes, work
from fleet.adapters.slurm.values import gpus, hosts, moment
from fleet.gangs.counting import count
from fleet.gangs.diagnosis.reasons import Reason, diagnose
from fleet.gangs.joining import join
from fleet.ports.gangs import Offer
from tests.unit.gangs.scenes import a_room, a_scene


@pytest.mark.parametrize(
    ("gres", "found"),
    [
        ("gpu:h100:8(S:0-1),nvme:2", 8),
        ("gpu:3090:8(S:0-1)", 8),
        ("gpu:2080ti:4", 4),
        ("gpu:1g.10gb:7(IDX:0-6)", 7),
        ("gpu:a100:4,gpu:1g.10gb:2", 6),
        ("gpu:(null):4(IDX:0-3)", 4),
        ("gpu:h100:no_consume:8", 8),
        ("gres/gpu:a100-sxm:4", 4),
        ("gres:gpu:2", 2),
        ("gpu:8", 8),
        ("gpu", 1),
        ("gpu:h100", 1),
        ("gpu:h100:0", 0),
        ("gpu:h100:8,mps:400,shard:16", 8),
        ("craynetwork:4", 0),
        ("", 0),
    ],
)
def test_gpus_are_counted_whatever_their_type_is_called(gres: str, found: int) -> None:
    assert gpus(gres) == found


@pytest.mark.parametrize(
    ("tres", "found"),
    [
        ("cpu=8,mem=64G,node=1,billing=8,gres/gpu=4,gres/gpu:a100=4", 4),
        ("cpu=1,mem=250M,node=1,gres/gpu:3090=2", 2),
        ("gres/gpu:a100=4,gres/gpu:v100=2,gres/gpu=6", 6),
        ("cpu=1,mem=1.50T,gres/gpu:a100-sxm4=4,node=2", 4),
        ("cpu=8,mem=64G,node=1", 0),
    ],
)
def test_a_sum_that_stands_beside_its_types_is_counted_once(tres: str, found: int) -> None:
    assert gpus(tres) == found
    assert nodes.offer({"name": "gpu-1", "state": "mixed", "gres": "gpu:8", "tres_used": tres}, {}).gpus_used == found


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        ("JobArrayTaskLimit", "QUOTA"),
        ("AssocGrpGRES", "QUOTA"),
        ("AssocGrpGRESMinutes", "QUOTA"),
        ("QOSMaxNodePerUserLimit", "QUOTA"),
        ("QOSMaxGRESPerJob", "EXCEEDS_MAX"),
        ("AssocMaxNodePerJobLimit", "EXCEEDS_MAX"),
        ("QOSMaxWallDurationPerJobLimit", "EXCEEDS_MAX"),
        ("QOSMinGRES", "EXCEEDS_MAX"),
        ("QOSNotAllowed", "QUEUE_STOPPED"),
        ("InvalidAccount", "QUEUE_STOPPED"),
        ("BurstBufferStageIn", "ADMISSION_CHECK"),
        ("DeadLine", "EXCEEDS_MAX"),
        ("ReqNodeNotAvail, UnavailableNodes:gpu-[1-2]", "NODE_UNHEALTHY"),
        ("(launch failed requeued held)", "SUSPENDED"),
        ("Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions",
         "NODE_UNHEALTHY"),
        ("WordOfTomorrow", "UNKNOWN"),
    ],
)  # fmt: skip
def test_every_reason_a_job_waits_for_is_known(reason: str, code: str) -> None:
    assert jobs.meaning(reason, "") == code


def waiting_in(partitions: str, **more: Any) -> dict[str, Any]:
    asks = {"node_count": 1, "tres_per_node": "gres/gpu:8", "cpus": 1}
    return {
        "job_id": 7,
        "job_state": ["PENDING"],
        "partition": partitions,
        "submit_time": 1_795_967_653,
        **asks,
        **more,
    }


def why(raw: dict[str, Any], *offers: Offer) -> Reason:
    (joined,) = join([jobs.gang(raw)], ()).values()
    rooms = (a_room(one.node, labels={f"partition/{name}": "" for name in one.partitions}) for one in offers)
    return diagnose(count(joined), *a_scene(*rooms))


def offer(node: str, partition: str) -> Offer:
    return Offer(node, 8, 0, 64_000, 0, 1 << 20, 0, partitions=(partition,))


def test_a_job_that_may_go_into_several_partitions_has_the_room_of_all_of_them() -> None:
    assert why(waiting_in("short,long"), offer("gpu-1", "long")).fits is True
    assert why(waiting_in("short"), offer("gpu-1", "long")).code == "EXCEEDS_MAX"
    banned = waiting_in("short,long", excluded_nodes="gpu-1")
    assert why(banned, offer("gpu-1", "long")).code == "EXCEEDS_MAX"


@pytest.mark.parametrize(
    "given",
    [
        {"tres_alloc_str": "cpu=64,mem=1T,node=2,gres/gpu=16,gres/gpu:h100=16"},
        {"gres_detail": ["gpu:h100:8(IDX:0-7)", "gpu:h100:8(IDX:0-7)"]},
    ],
)
def test_a_job_holds_the_gpus_that_came_with_its_nodes_though_it_asked_for_none(given: dict[str, Any]) -> None:
    asks = {"tres_per_node": "", "node_count": 2, **given}
    held = jobs.members(waiting_in("gpu", job_state=["RUNNING"], nodes="gpu-[1-2]", **asks))
    assert [one.need.gpus for one in held] == [8, 8]
    assert jobs.gang(waiting_in("gpu", **asks)).parts[0].need.gpus == 0, "nothing is given to one that waits"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("detail", "held"),
    [
        (["gpu:h100:8(IDX:0-7)", "gpu:h100:1(IDX:3)"], [8, 1]),
        (["gpu:h100:8(IDX:0-7)", "(null)"], [8, 0]),
        (["gpu:h100:8(IDX:0-7)"], [5, 5]),  # of one node alone: what it asked for, spread over both
        ([], [5, 5]),
    ],
)
def test_each_node_of_a_job_holds_what_slurm_tells_of_it(detail: list[str], held: list[int]) -> None:
    asks = {"tres_per_node": "", "tres_per_job": "gres/gpu:9", "gres_detail": detail, "node_count": 2}
    raw = waiting_in("gpu", job_state=["RUNNING"], nodes="gpu-[1-2]", **asks)
    assert [one.need.gpus for one in jobs.members(raw)] == held == [rank.gpus for rank in work.running(raw)]


@pytest.mark.parametrize(
    ("told", "whole"),
    [
        ({"shared": ["none"]}, True),
        ({"shared": [], "exclusive": ["true"]}, True),
        ({"shared": "none"}, True),
        ({"shared": ["oversubscribe"], "exclusive": ["false"]}, False),
        ({"shared": [], "exclusive": ["user"]}, False),
        ({}, False),
    ],
)
def test_whether_nothing_else_may_share_its_nodes_is_told_in_several_ways(told: dict[str, Any], whole: bool) -> None:
    need = jobs.gang(waiting_in("gpu", **told)).parts[0].need
    assert need is not None and need.whole_node is whole


@pytest.mark.parametrize("state", [None, [], "", {"a": 1}])
def test_a_node_of_which_no_state_is_told_takes_no_work(state: Any) -> None:
    assert nodes.offer({"name": "gpu-1", "state": state, "gres": "gpu:8"}, {}).out == "Its state is not told."


@pytest.mark.parametrize("never", [0, 4_294_967_293, 4_294_967_294, 4_294_967_295, 2**63])
def test_the_largest_numbers_are_no_time(never: int) -> None:
    assert moment(never) is None and moment({"set": True, "number": never}) is None


def test_hosts_may_come_as_a_list() -> None:
    assert hosts(["gpu-[1-2]", "login"]) == ("gpu-1", "gpu-2", "login")
