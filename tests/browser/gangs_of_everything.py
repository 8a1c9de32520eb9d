"""Gangs of every kind that a page can show, as rows, and the board that an observer would hold of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from fleet.gangs import board
from fleet.gangs.board import Board
from fleet.gangs.diagnosis.rooms import Rooms
from fleet.gangs.models import GangRow
from fleet.inventory.models import Cluster
from fleet.ports.clock import SYSTEM_CLOCK
from tests.browser.fleet_of_everything import Everything
from tests.gang_rows import (
    a_condition,
    a_gang_row,
    a_moment,
    a_queue_row,
    a_quota,
    an_ending,
    because,
    blocked_by,
    minutes_of,
)
from tests.unit.gangs.scenes import OUT, a_gang, a_room

RACK = "topology.muster.dev/rack"


@dataclass(frozen=True)
class Gangs:
    cluster: Cluster
    partial: GangRow
    running: GangRow
    gone: GangRow
    board: Board


def gangs(fleet: Everything) -> Gangs:
    cluster, now = fleet.blocked.cluster, SYSTEM_CLOCK.now()
    lately = {"waits_since": now - timedelta(minutes=21), "idle_since": now - timedelta(minutes=21), "counted_at": now}
    nodes = [f"gpu-r0{rack}-{number:02}" for rack in (1, 2) for number in range(2, 17)][:7]
    soon = (now + timedelta(minutes=17)).isoformat()
    partial = a_gang_row(
        cluster, "llm-70b-pretrain", placed=7, minimum=8, nodes=nodes, idle_seconds=7 * 8 * 1260.0, **lately,
        **blocked_by("gpu-r01-01", workflow=fleet.blocked.pk, ticket="TKT-1", back_at=soon),
        system="ray", kind="RayCluster", objects_seen=[
            {"system": "ray", "kind": "RayJob", "namespace": "nlp", "name": "llm-70b-pretrain", "phase": "Initializing",
             "said": []},
            {"system": "volcano", "kind": "PodGroup", "namespace": "nlp", "name": "ray-llm-70b-pretrain-pg",
             "phase": "Inqueue", "said": [["CAPACITY", "1/8 tasks in gang unschedulable: pod group is not ready, "
              "8 Pending, 8 minAvailable", now.isoformat(), "PodGroup condition Unschedulable: NotEnoughResources"]]},
        ],
    )  # fmt: skip
    a_condition(partial)
    a_condition(partial, "guarantee_partial", about="", facts={"minimum": 2, "whole": 8, "severity": "warning"})
    _lines(partial)
    an_ending(partial, at=now - timedelta(hours=5))
    other = a_gang_row(
        cluster, "vlm-finetune", placed=3, minimum=6, wanted=8, reason_code="QUOTA", guarantee="none",
        reason=because("Not enough queue quota: nvidia.com/gpu 64/64", needs=24, lacking=3), **lately,
        idle_seconds=3 * 8 * 1500.0, queue="batch", queue_key="volcano/Queue//batch",
    )  # fmt: skip
    a_condition(other, "guarantee_none", about="", facts={"wanted": 8, "severity": "warning"})
    for one, before in ((partial, other), (other, partial)):
        a_condition(one, "deadlock", about="", facts={
            "own": one.gpus_held, "missing": 8, "others": [before.key], "held": 80, "suspend": [other.key],
            "frees": 24, "starts": [partial.key], "severity": "critical"})  # fmt: skip
    a_gang_row(cluster, "asr-large", placed=0, minimum=16, system="kueue", kind="Workload", title="Job asr-large",
               reason_code="TOPOLOGY", reason=because("topology \"rack\" allows to fit only 14 out of 16 pod(s)",
               needs=128, free=176, slots=14, lacking=16, level=RACK),
               waits_since=now - timedelta(minutes=72))  # fmt: skip
    a_gang_row(cluster, "ranker", placed=0, system="slurm", kind="Job", title="Job 88213", namespace="gpu",
               reason_code="PRIORITY_BEHIND", reason=because("Priority", ahead=[other.key, partial.key], fits=True),
               position=1, waits_since=now - timedelta(minutes=9), guarantee="whole")  # fmt: skip
    a_gang_row(cluster, "evals", placed=0, state="suspended", reason_code="SUSPENDED", reason=because(""))
    running = a_gang_row(cluster, "rec-train", placed=4, minimum=4, nodes=nodes[:4])
    gone = a_gang_row(cluster, "old", placed=0, state="finished", gone_at=now - timedelta(hours=2), reason_code="",
                      reason={}, waits_since=None)  # fmt: skip
    _queues(cluster)
    minutes_of(cluster, now, 1200)
    return Gangs(cluster, partial, running, gone, _board())


def _lines(gang: GangRow) -> None:
    a_moment(gang, 0, "state", "waiting", placed=0, minimum=8, wanted=8, gpus_held=0)
    a_moment(gang, 1, "state", "partial", placed=7, minimum=8, wanted=8, gpus_held=56)
    a_moment(gang, 1, "reason", "NODE_UNHEALTHY", raw="1/8 tasks in gang unschedulable", nodes=["gpu-r01-01"])
    a_moment(gang, 2, "condition", "headroom_exact", about="workers", maximum=8, replicas=8, spare=0, enough=10)
    a_moment(gang, 3, "condition", "headroom_exact", about="workers", ended=True)


def _queues(cluster: Cluster) -> None:
    a_queue_row(cluster, "train", a_quota(guaranteed=128.0, used=96.0, ceiling=160.0, wanted=32.0), share=0.6, weight=2)
    a_queue_row(cluster, "batch", a_quota(guaranteed=32.0, used=64.0, borrowed=32.0, ceiling=64.0), share=2.0)
    a_queue_row(cluster, "cq-research", a_quota(flavor="h100", guaranteed=64.0, used=20.0, ceiling=None, reserved=24.0),
                a_quota(flavor="a100-mig", resource="nvidia.com/mig-3g.40gb", guaranteed=8.0, used=2.0, ceiling=8.0),
                system="kueue", kind="ClusterQueue", key="kueue/ClusterQueue//cq-research", parent="research",
                share=0.0, share_text="weighted share", head_blocks=True, waiting=3)  # fmt: skip
    a_queue_row(cluster, "night", stopped=True, quotas=[], said=[["QUEUE_STOPPED", "stopPolicy is Hold", None, "spec"]])


def _board() -> Board:
    """Fifteen nodes in three racks, one of them out; a gang that waits for it and one that runs."""
    rooms = [
        a_room(f"gpu-r0{n // 5 + 1}-{n % 5 + 1:02}", used=(0, 8, 8, 6, 3)[n % 5] if n else 0, out=None if n else OUT,
               labels={RACK: f"r0{n // 5 + 1}"})
        for n in range(15)
    ]  # fmt: skip
    made = [a_gang("llm-70b-pretrain", 3), a_gang("rec-train", 2, 2)]
    return board.read({gang.key: gang for gang in made}, [], Rooms(rooms))
