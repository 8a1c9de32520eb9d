"""A node of Slurm in the form of a cluster's node.

Decides that `ready` is whether its slurmd is there by slurmctld's own word, and `unschedulable` whether somebody keeps
it from work; a node that only missed a ping, as every one has after a resume, is still ready until slurmctld calls it
down. A reservation of ours is the hold while a test of ours starts, and never an owner beside us. Its boot time is its
boot id, its partitions and features are labels. Refuses to tell a heartbeat that nobody saw, and a hold of ours where
the node is neither drained nor reserved any more.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from datetime import datetime
from ipaddress import ip_address
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from fleet.adapters.slurm import marks, reservations
from fleet.adapters.slurm.reservations import Reservation
from fleet.adapters.slurm.values import gpus, moment, number, states, words
from fleet.ports.cluster import HOLD_ANNOTATION, SLURM_OUT, SLURM_WORK, NodeSeen
from fleet.ports.shapes import text

DRAIN = frozenset({"DRAIN", "DRAINED", "DRAINING"})
MAINTENANCE = frozenset({"MAINTENANCE", "MAINT"})
KEPT = DRAIN | MAINTENANCE | {"DOWN", "FAIL", "FAILING", "ERROR", "FUTURE"}
"""What somebody's will is, or may be. BLOCKED is none (a job has the rest of its block), nor is INVALID_REG."""
REBOOTS = frozenset({"REBOOT", "REBOOT_REQUESTED", "REBOOT_ISSUED"})
UNTOLD = frozenset({"UNKNOWN", "FUTURE", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "POWER_DOWN", "POWER_UP"})
SLURMS_OWN = re.compile(
    r"Not responding|Node unexpectedly rebooted|(?:.* : )?(?:reboot timed out|ResumeTimeout reached)"
)
"""Reasons that slurmctld gives by itself: nobody's will, so such a node is not ready and not held."""
PARTITION, FEATURE, FIRST = "partition/", "feature/", "partition"


def node(raw: dict[str, Any], now: datetime, booked: Sequence[Reservation] = ()) -> NodeSeen:
    """`booked` are Slurm's reservations, of which only those count that speak of this node."""
    name, reason = text(raw.get("name")), text(raw.get("reason"))
    state = states(raw.get("state"), raw.get("state_flags"))
    booted = moment(raw.get("boot_time"))
    kept = _kept(state, reason)
    ours = reservations.ours(booked, name)
    if ours is not None and not reservations.beside(booked, name):
        kept -= MAINTENANCE
    mark = held(state, reason, ours)
    count, cpus, memory = gpus(raw.get("gres")), number(raw.get("cpus")), number(raw.get("real_memory"))
    system = text(raw.get("operating_system"))
    return NodeSeen(
        name=name,
        uid=str(uuid5(NAMESPACE_DNS, f"slurm/{name}")),
        resource_version=_version(state, reason, raw),
        unschedulable=bool(kept or ours is not None),
        ready=_ready(state, reason, booted),
        ready_reason="+".join(sorted(state)),
        ready_since=None,
        heartbeat_at=now if booted is not None and "NOT_RESPONDING" not in state else None,
        boot_id="" if booted is None else f"{booted:%Y-%m-%dT%H:%M:%SZ}",
        machine_id="",
        system_uuid="",
        provider_id="",
        kernel=next(iter(system.split()[1:2]), ""),
        os_image=system,
        kubelet=text(raw.get("version")) or text(raw.get("slurmd_version")),
        addresses=_addresses(raw),
        labels=_labels(raw),
        annotations=_annotations(mark, reason, text(raw.get("reason_set_by_user")), kept),
        taints=(),
        conditions={},
        gpu_capacity=count or None,
        gpu_allocatable=count or None,
        created_at=None,
        allocatable=(("nvidia.com/gpu", count),) if count else (),
        cpu_millis=None if cpus is None else 1000 * cpus,
        memory_mib=memory,
    )


def held(state: frozenset[str], reason: str, ours: Reservation | None = None) -> marks.Mark | None:
    """Our hold, as long as it keeps the node from work: by a drain, or by `ours` while a test starts."""
    if state & DRAIN:
        return marks.read(reason)
    return ours.mark if ours is not None else None


def _kept(state: frozenset[str], reason: str) -> frozenset[str]:
    """What of its state is somebody's will. Down by slurmctld's own word is none, and a reboot of a node lies in it."""
    found = state & (KEPT | REBOOTS)
    return found - {"DOWN"} if _down_by_itself(state, reason) and not state & DRAIN else found


def _down_by_itself(state: frozenset[str], reason: str) -> bool:
    """slurmctld leaves a reason that stands: one of ours that a resume has left says nothing, for we call none down."""
    own = SLURMS_OWN.match(reason) is not None or marks.read(reason) is not None
    return "DOWN" in state and ("NOT_RESPONDING" in state or own)


def _ready(state: frozenset[str], reason: str, booted: datetime | None) -> bool | None:
    if state & UNTOLD or not state:
        return None
    if "DOWN" in state and (booted is None or (_down_by_itself(state, reason) and not _ours_drained(state, reason))):
        return False
    return not state & {"REBOOT_ISSUED", "INVALID_REG", "ERROR"}


def _ours_drained(state: frozenset[str], reason: str) -> bool:
    """A host that boots while we drain it is down, and answers."""
    return bool(state & DRAIN) and "NOT_RESPONDING" not in state and SLURMS_OWN.match(reason) is None


def _annotations(ours: marks.Mark | None, reason: str, user: str, kept: frozenset[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if ours is not None:
        found[HOLD_ANNOTATION] = ours.value
        kept -= DRAIN | {"DOWN"}  # a host that boots while it is drained comes back as down, too
    if kept & REBOOTS:
        found[SLURM_WORK] = "+".join(sorted(kept & REBOOTS))
    others = kept - REBOOTS
    if others:
        said = "" if ours is not None or not reason else f": {reason}"
        who = f" by {user}" if user and ours is None else ""
        found[SLURM_OUT] = f"{'+'.join(sorted(others))}{who}{said}"[:300]
    return found


def _labels(raw: dict[str, Any]) -> dict[str, str]:
    partitions = words(raw.get("partitions"))
    found = {f"{PARTITION}{name}": "" for name in partitions}
    found |= {f"{FEATURE}{name}": "" for name in words(raw.get("active_features"))}
    return found | ({FIRST: partitions[0]} if partitions else {})


def _addresses(raw: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    told = text(raw.get("address"))
    try:
        found = [("InternalIP", str(ip_address(told)))]
    except ValueError:
        found = [("Hostname", told)] if told else []
    host = text(raw.get("hostname"))
    return tuple(found) + ((("Hostname", host),) if host and ("Hostname", host) not in found else ())


def _version(state: frozenset[str], reason: str, raw: dict[str, Any]) -> str:
    """Slurm counts no versions of a node: what an act depends on, as one word."""
    told = (sorted(state), reason, moment(raw.get("reason_changed_at")), moment(raw.get("boot_time")))
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]
