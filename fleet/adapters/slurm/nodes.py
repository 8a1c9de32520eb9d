"""Slurm's nodes and partitions: what each offers and why it takes no work.

Decides that a node which is drained, down, failing, reserved for maintenance or being rebooted is out, and that one
which only does not answer yet after a resume is not. Refuses Slurm's counts of idle CPUs: they leave drained nodes out.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fleet.adapters.slurm.values import gpus, number, shared, states, words
from fleet.ports.gangs import GangObject, Offer, QueueObject, Quota, Ref, Said
from fleet.ports.shapes import text

OUT = frozenset({
    "DRAIN", "DRAINED", "DRAINING", "DOWN", "FAIL", "FAILING", "ERROR", "FUTURE", "INVALID_REG", "MAINTENANCE", "MAINT",
    "REBOOT_REQUESTED", "REBOOT_ISSUED", "REBOOT", "POWERED_DOWN", "POWERING_DOWN", "POWERING_UP", "UNKNOWN",
    "NOT_RESPONDING", "BLOCKED",
})  # fmt: skip


def offer(raw: dict[str, Any], planned: dict[str, str]) -> Offer:
    """`planned`: node -> key of the job that Slurm keeps it free for."""
    name, state = text(raw.get("name")), states(raw.get("state"), raw.get("state_flags"))
    cpus, taken = number(raw.get("cpus")) or 0, number(raw.get("alloc_cpus")) or 0
    memory, memory_taken = number(raw.get("real_memory")) or 0, number(raw.get("alloc_memory")) or 0
    return Offer(
        node=name,
        gpus=gpus(raw.get("gres")),
        gpus_used=_used(raw),
        cpu_millis=1000 * cpus,
        cpu_millis_used=1000 * taken,
        memory_mib=memory,
        memory_mib_used=memory_taken,
        out=why_out(state, text(raw.get("reason"))),
        partitions=words(raw.get("partitions")),
        reserved_for=planned.get(name, ""),
    )


def _used(raw: dict[str, Any]) -> int:
    told = raw.get("gres_used")
    if isinstance(told, str) and told:
        return min(gpus(told) + shared(told), max(gpus(told), gpus(raw.get("gres"))))
    return gpus(raw.get("tres_used"))


def why_out(state: frozenset[str], reason: str) -> str:
    """Its words when it takes no work, "" when it does. After RESUME it is NOT_RESPONDING until the next ping."""
    if "IDLE" in state and state & {"NOT_RESPONDING"} and not state & (OUT - {"NOT_RESPONDING"}):
        return ""
    if not state:
        return reason or "Its state is not told."
    out = sorted(state & OUT)
    if not out:
        return ""
    words = "+".join(sorted(state))
    return f"{words}: {reason}" if reason else words


def partition(raw: dict[str, Any], jobs: Iterable[GangObject], offers: Iterable[Offer]) -> QueueObject:
    name = text(raw.get("name"))
    inside = [one for one in offers if name in one.partitions]
    mine = [job for job in jobs if job.queue == name]
    state = _state(raw)
    stopped = bool(state) and "UP" not in state
    waiting = [job for job in mine if job.started_at is None]
    total = sum(one.gpus for one in inside)
    return QueueObject(
        Ref("slurm", "Partition", "", name),
        stopped=stopped,
        quotas=(
            Quota(
                "",
                "nvidia.com/gpu",
                used=float(sum(one.gpus_used for one in inside)),
                ceiling=float(total),
                wanted=float(
                    sum((part.need.gpus if part.need else 0) * part.wanted for j in waiting for part in j.parts)
                ),
            ),
        ),
        waiting=len(waiting),
        running=len(mine) - len(waiting),
        said=(Said("QUEUE_STOPPED", f"The partition is {'+'.join(sorted(state))}.", None, "Slurm partition"),)
        if stopped
        else (),
    )


def _state(raw: dict[str, Any]) -> frozenset[str]:
    """22.05 tells it beside, newer versions inside `partition`."""
    told = raw.get("state")
    if told is None:
        inner = raw.get("partition")
        told = inner.get("state") if isinstance(inner, dict) else None
    return states(told)


def planned(jobs: Iterable[GangObject]) -> dict[str, str]:
    """Node -> the waiting job that Slurm means to put there, the first in line."""
    found: dict[str, str] = {}
    for job in sorted(jobs, key=lambda one: -one.priority):
        for name in job.planned_nodes:
            found.setdefault(name, job.ref.key)
    return found
