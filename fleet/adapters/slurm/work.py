"""Slurm's jobs in the form of pods: one for each node that a job holds.

Decides that a rank lives as long as its job holds the node (also while it completes or is suspended, and although the
job waits anew already), and that it ends at the latest at its job's time limit. A requeued job is new work with another
uid. Refuses to count finished jobs.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from fleet.adapters.slurm.jobs import ENDING, holds, need_of, needs_of, waits
from fleet.adapters.slurm.values import hosts, moment, number, states
from fleet.ports.cluster import SLURM_JOB, PodSeen
from fleet.ports.shapes import text

KILL_WAIT = 30  # seconds between SIGTERM and SIGKILL by default


def running(raw: dict[str, Any]) -> list[PodSeen]:
    """One for each node that it holds."""
    if not holds(raw):
        return []
    nodes = hosts(raw.get("nodes"))
    needs = needs_of(raw, len(nodes))
    return [_pod(raw, node, rank, needs[rank].gpus) for rank, node in enumerate(nodes)]


def waiting(raw: dict[str, Any]) -> PodSeen | None:
    """One for the whole job."""
    if not waits(raw):
        return None
    return _pod(raw, "", 0, need_of(raw, max(1, number(raw.get("node_count")) or 1)).gpus)


def job_of(pod: PodSeen) -> str:
    """The number of its job."""
    return pod.owner.removeprefix(SLURM_JOB)


def ends(raw: dict[str, Any]) -> bool:
    return ENDING in states(raw.get("job_state"))


def may_requeue(raw: dict[str, Any]) -> bool:
    """Neither one that was submitted so, nor one without a script: somebody sits before it."""
    return not any(raw.get(key) is False or number(raw.get(key)) == 0 for key in ("requeue", "batch_flag"))


def leader_of(raw: dict[str, Any], job: str) -> str:
    """The number by which the whole of it is requeued or ended: parts of a heterogeneous job only go together."""
    return str(number(raw.get("het_job_id")) or job)


def _pod(raw: dict[str, Any], node: str, rank: int, gpus: int) -> PodSeen:
    job, partition = str(number(raw.get("job_id")) or 0), text(raw.get("partition")).split(",")[0]
    ending: datetime | None = moment(raw.get("end_time")) if ends(raw) else None
    started = moment(raw.get("start_time")) if node else None
    return PodSeen(
        namespace=partition,
        name=f"{job}.{rank}",
        uid=f"slurm-{job}.{number(raw.get('restart_cnt')) or 0}.{rank}",
        node=node,
        phase="Running" if node else "Pending",
        ready=bool(node),
        kind="workload",
        owner=f"{SLURM_JOB}{job}",
        gang=f"{partition}/{job}",
        gpus=gpus,
        grace_seconds=KILL_WAIT,
        deleting_since=ending,
        finalizers=(),
        local_data=False,
        labels={},
        annotations={},
        role="rank",
        started_at=started,
        ends_at=moment(raw.get("end_time")) if node else None,
    )
