"""A minute of a cluster in a dozen numbers: how much of it works, how long gangs wait, how its free nodes lie.

Decides what counts as a GPU (whole devices; a slice of one is another resource with another count) and that a minute
nobody saw has no row. Refuses to write without the caller's transaction and fence.
"""

from __future__ import annotations

from datetime import datetime
from statistics import median
from typing import Any

from django.db import connection

from fleet.gangs.board import Board
from fleet.gangs.diagnosis.fragmentation import whole_nodes
from fleet.gangs.models import QueueMinute

SLICE = "/mig-"


def columns(board: Board, now: datetime) -> dict[str, Any]:
    """GPUs in devices, waits in seconds, nodes in whole nodes."""
    rooms, space = board.starter.rooms, board.space
    resources = [name for name in rooms.resources if SLICE not in name]
    waiting = [gang for gang in board.gangs.values() if gang.waits]
    waits = [max(0.0, (now - gang.waits_since).total_seconds()) for gang in waiting if gang.waits_since is not None]
    whole = [whole_nodes(rooms, space, name) for name in resources]
    return {
        "gpus_total": sum(int(rooms.capacity[name].sum()) for name in resources),
        "gpus_out": sum(int(rooms.capacity[name][~rooms.usable].sum()) for name in resources),
        "gpus_used": sum(int((rooms.capacity[name] - rooms.whole[name]).sum()) for name in resources),
        "gpus_idle": sum(gang.gpus_held_idle for gang in board.gangs.values()),
        "gangs_waiting": len(waiting),
        "gpus_wanted": sum(gang.gpus_wanted for gang in waiting),
        "wait_median": median(waits) if waits else None,
        "wait_longest": max(waits, default=None),
        "full_nodes_free": sum(free for free, _ in whole),
        "full_nodes_packed": sum(packed for _, packed in whole),
    }


def store(cluster_id: int, at: datetime, values: dict[str, Any]) -> None:
    """One row for each minute: whoever took over may have written it already."""
    if not connection.in_atomic_block:
        raise RuntimeError("minutes are written in the transaction of the fence")
    QueueMinute.objects.bulk_create([QueueMinute(cluster_id=cluster_id, at=at, **values)], ignore_conflicts=True)
