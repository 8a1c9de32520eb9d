"""Rows of gangs and queues as the observer writes them, so that a test of a page names what counts."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from fleet.gangs.models import Ending, GangCondition, GangMoment, GangRow, QueueMinute, QueueRow
from fleet.inventory.models import Cluster
from tests.builders import T0

GPU = "nvidia.com/gpu"


def a_gang_row(cluster: Cluster, name: str = "llm", *, placed: int = 3, minimum: int = 4, **fields: Any) -> GangRow:
    """Partly placed, eight GPUs a member, waiting since T0 with its GPUs idle, unless told."""
    each = fields.pop("gpus_per_member", 8)
    wanted = fields.pop("wanted", minimum)
    state = fields.pop("state", "waiting" if not placed else "partial" if placed < minimum else "running")
    waits = state in ("waiting", "partial")
    nodes = fields.pop("nodes", [f"gpu-{name}-{n}" for n in range(placed)])
    idle = fields.pop("gpus_held_idle", placed * each if state == "partial" else 0)
    values: dict[str, Any] = {
        "key": f"volcano/PodGroup/train/{name}", "system": "volcano", "kind": "PodGroup", "namespace": "train",
        "name": name, "title": f"RayJob {name}", "owner": "team-nlp", "queue_key": "volcano/Queue//train",
        "queue": "train", "state": state, "wanted": wanted, "minimum": minimum, "placed": placed, "running": placed,
        "ready": placed, "unscheduled": max(0, wanted - placed), "gpus_per_member": each, "gpus_wanted": wanted * each,
        "gpus_held": placed * each, "gpus_held_idle": idle, "guarantee": "whole", "created_at": T0,
        "waits_since": T0 if waits else None, "started_at": None if waits else T0, "nodes": nodes,
        "idle_since": T0 if idle else None, "idle_seconds": 0.0, "counted_at": T0, "first_seen_at": T0,
        "changed_at": T0, "position": 0 if waits else None,
        "members": [[f"train/{name}-{n}", node, "ready", "worker", each, "", "", ""] for n, node in enumerate(nodes)]
        + [[f"train/{name}-{n}", "", "pending", "worker", each, "0/4 nodes are available.", "", ""]
           for n in range(placed, wanted)],
    }  # fmt: skip
    if waits:
        values |= {"reason_code": "CAPACITY", "reason": because()}
    return GangRow.objects.create(cluster=cluster, **{**values, **fields})


def because(raw: str = "3/4 tasks in gang unschedulable", **facts: Any) -> dict[str, Any]:
    told = {"raw": raw, "source": "PodGroup condition Unschedulable", "since": None, "fits": False, "needs": 8}
    return {**told, "free": 0, "slots": 0, "lacking": 1, "level": "", "ahead": [], **facts}


def blocked_by(*nodes: str, **facts: Any) -> dict[str, Any]:
    """Columns of a gang that waits for nodes."""
    told = {"members": 1, "code": "draining", "text": "Xid 79 on GPU 3", "since": T0.isoformat(), "back_at": None}
    blockers = [{"node": node, "workflow": None, "ticket": "", **told, **facts} for node in nodes]
    return {"reason_code": "NODE_UNHEALTHY", "reason": because(lacking=len(nodes)), "blockers": blockers}


def a_queue_row(cluster: Cluster, name: str = "train", *quotas: dict[str, Any], **fields: Any) -> QueueRow:
    values: dict[str, Any] = {
        "key": f"volcano/Queue//{name}", "system": "volcano", "kind": "Queue", "name": name, "changed_at": T0,
        "quotas": list(quotas) or [a_quota()],
    }  # fmt: skip
    return QueueRow.objects.create(cluster=cluster, **{**values, **fields})


def a_quota(**facts: Any) -> dict[str, Any]:
    told = {"flavor": "", "resource": GPU, "guaranteed": 64.0, "used": 40.0, "reserved": None, "borrowed": 0.0}
    return {**told, "ceiling": 128.0, "wanted": None, **facts}


def a_condition(gang: GangRow, code: str = "headroom_exact", **fields: Any) -> GangCondition:
    facts = {"maximum": 4, "replicas": 4, "spare": 0, "enough": 6, "severity": "warning"}
    values: dict[str, Any] = {"about": "workers", "facts": facts, "since": T0, "seen_at": T0, **fields}
    return GangCondition.objects.create(cluster=gang.cluster, gang_key=gang.key, code=code, **values)


def a_moment(gang: GangRow, minutes: float, kind: str, what: str, **facts: Any) -> GangMoment:
    at = T0 + timedelta(minutes=minutes)
    return GangMoment.objects.create(cluster=gang.cluster, gang_key=gang.key, at=at, kind=kind, what=what, facts=facts)


def an_ending(gang: GangRow, **fields: Any) -> Ending:
    values: dict[str, Any] = {
        "title": gang.title, "at": T0, "status": "FAILED", "message": "Worker died of memory.",
        "log_tail": "ray.exceptions.OutOfMemoryError: rank 3\n", "events": [{"reason": "OOMKilled", "object": "llm-3"}],
        "nodes": [{"node": "gpu-r01-01", "verdict": "unhealthy", "reason": "Xid 79 on GPU 3", "incident": None}],
        "missing": ["the placement groups: the dashboard did not answer"],
    }  # fmt: skip
    return Ending.objects.create(cluster=gang.cluster, gang_key=gang.key, **{**values, **fields})


def minutes_of(cluster: Cluster, until: datetime, count: int = 120, **fields: Any) -> list[QueueMinute]:
    """A line each minute up to `until`: use goes up, and waiting with it."""
    rows = []
    for n in range(count):
        share = n / max(1, count - 1)
        values: dict[str, Any] = {
            "gpus_total": 256, "gpus_out": 16, "gpus_used": 120 + int(100 * share), "gpus_idle": int(40 * share),
            "gangs_waiting": 1 + int(5 * share), "gpus_wanted": 64, "wait_median": 60 + 1200 * share,
            "wait_longest": 300 + 4000 * share, "full_nodes_free": 12 - int(9 * share),
            "full_nodes_packed": 13 - int(5 * share),
        }  # fmt: skip
        at = until - timedelta(minutes=count - n)
        rows.append(QueueMinute(cluster=cluster, at=at, **{**values, **fields}))
    return QueueMinute.objects.bulk_create(rows)
