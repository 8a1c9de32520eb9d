"""YuniKorn's applications as gangs: task groups are what has to come together, placeholders hold their room.

Decides that an application which went through `Resuming` has lost its guarantee (its placeholders timed out in style
Soft, and it goes on member by member), that placeholders nobody has taken hold GPUs for nothing, and what the words of
its allocation log mean. Refuses members: they are pods, which the API server tells better.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from fleet.adapters.yunikorn.values import amount, count, gpus, nanoseconds, need
from fleet.ports.gangs import GangObject, Guarantee, Part, ReasonCode, Ref, Said
from fleet.ports.shapes import MOST, items, strings, text

OVER = ("Completed", "Failed", "Expired", "Rejected")
_NO_PRIORITY = -(2**31)
ENDING = (*OVER, "Completing", "Failing")
_MEANS: tuple[tuple[str, ReasonCode], ...] = (
    ("Not enough queue quota", "QUOTA"),
    ("Not enough user quota", "QUOTA"),
    ("user limit", "QUOTA"),
    ("group limit", "QUOTA"),
    ("quota exceeded", "QUOTA"),
    ("failed to find queue", "QUEUE_STOPPED"),
    ("currently stopped", "QUEUE_STOPPED"),
    ("placement rule", "QUEUE_STOPPED"),
    ("headroom", "QUOTA"),
    ("topology", "TOPOLOGY"),
    ("node affinity", "CAPACITY"),  # of the nodes it may use none has room
    ("affinity", "TOPOLOGY"),
    ("unschedulable", "NODE_UNHEALTHY"),
    ("node is not schedulable", "NODE_UNHEALTHY"),
    ("not ready", "NODE_UNHEALTHY"),
    ("taint", "CAPACITY"),
    ("preemption", "CAPACITY"),  # it was tried and frees too little
    ("nodes", "CAPACITY"),
    ("fit", "CAPACITY"),
    ("not enough resource", "CAPACITY"),
)
"""Parts of its words, in lower case; the first that is found counts."""


def ref_of(raw: dict[str, Any]) -> Ref:
    return Ref("yunikorn", "Application", "", text(raw.get("applicationID"))[:253])


def application(raw: dict[str, Any], full: frozenset[str], nodes: frozenset[str]) -> GangObject:
    """`full`: queues that run as many applications as they may; `nodes`: those that are known."""
    state, groups = text(raw.get("applicationState")), items(raw.get("placeholderData"))
    queue, submitted = text(raw.get("queueName")), nanoseconds(raw.get("submissionTime"))
    log = {text(one.get("applicationState")): nanoseconds(one.get("time")) for one in items(raw.get("stateLog"))}
    parts = tuple(_part(one) for one in groups)
    held_back = state in ("New", "Accepted") and queue in full
    wanted = sum(part.wanted for part in parts) if parts else None
    finished = state in OVER
    return GangObject(
        ref_of(raw),
        places=True,
        owner=text(raw.get("user")),
        queue=queue,
        priority=_priority(raw.get("maxRequestPriority")),
        created_at=submitted,
        waits_since=log.get("Resuming") or submitted,
        started_at=log.get("Running"),
        ended_at=nanoseconds(raw.get("finishedTime")) if finished else None,
        finished=finished,
        admitted=not (state == "New" or held_back),
        phase=state,
        wanted=wanted,
        minimum=wanted,
        parts=parts,
        said=tuple(_said(raw, held_back)),
        planned_nodes=_planned(raw, nodes),
        guarantee=_guarantee(state, log, bool(parts)),
        gpus_idle=_idle(raw),
        stale=_stale(raw, state),
    )


def _priority(raw: Any) -> int:
    """Of its requests; the least number there is stands for having none."""
    told = amount(raw) or 0
    return 0 if told <= _NO_PRIORITY else max(-MOST, min(MOST, told))


def _part(raw: dict[str, Any]) -> Part:
    wanted = count(raw.get("count"))
    return Part(text(raw.get("taskGroupName")).lower()[:63], wanted, minimum=wanted, need=need(raw.get("minResource")))


def _guarantee(state: str, log: dict[str, datetime | None], grouped: bool) -> Guarantee:
    if not grouped:
        return "none"
    return "lost" if state == "Resuming" or "Resuming" in log else "whole"


def _idle(raw: dict[str, Any]) -> int:
    """GPUs of placeholders that no member has taken over."""
    there = items(raw.get("allocations"))
    return sum(gpus(one.get("resource")) for one in there if one.get("placeholder") is True
               and one.get("placeholderUsed") is not True)  # fmt: skip


def _said(raw: dict[str, Any], held_back: bool) -> Iterator[Said]:
    if held_back:
        yield Said("QUOTA", "Its queue runs as many applications as it may (maxRunningApps).", None, "YuniKorn queue")
    rejected = text(raw.get("rejectedMessage"))
    if rejected:
        code: ReasonCode = "EXCEEDS_MAX" if "exceed" in rejected.lower() else meaning(rejected)
        yield Said(code, rejected, nanoseconds(raw.get("finishedTime")), "YuniKorn application Rejected")
    yield from _waits(raw)
    taken = sum(one.get("preempted") is True for one in items(raw.get("allocations")))
    if taken:
        words = f"{taken} of its allocations are being taken back for others (preempted)."
        yield Said("PRIORITY_BEHIND", words, None, "YuniKorn allocation")


def _waits(raw: dict[str, Any]) -> Iterator[Said]:
    """The last word of each request's log, equal ones once with their latest time. Older words may be out of date."""
    told: dict[str, datetime | None] = {}
    for request in items(raw.get("requests")):
        log = items(request.get("allocationLog"))
        latest = max(range(len(log)), key=lambda n: (amount(log[n].get("lastOccurrence")) or 0, n), default=None)
        last = {} if latest is None else log[latest]
        if not text(last.get("message")):
            continue
        at, words = nanoseconds(last.get("lastOccurrence")), text(last.get("message"))
        known = told.get(words)
        told[words] = at if known is None or (at is not None and at > known) else known
    for words, at in told.items():
        yield Said(meaning(words), words, at, "YuniKorn allocation log")


def meaning(words: str) -> ReasonCode:
    lower = words.lower()
    return next((code for part, code in _MEANS if part.lower() in lower), "UNKNOWN")


def _planned(raw: dict[str, Any], nodes: frozenset[str]) -> tuple[str, ...]:
    """Nodes that it keeps reserved: `node|ask` in one version, another order in another."""
    told = (part for one in strings(raw.get("reservations")) for part in one.split("|"))
    return tuple(dict.fromkeys(part for part in told if part in nodes))


def _stale(raw: dict[str, Any], state: str) -> Said | None:
    held = sum(gpus(one.get("resource")) for one in items(raw.get("allocations")))
    if state not in ENDING or not held:
        return None
    return Said("UNKNOWN", f"The application is {state} and {held} GPUs are still allocated to it.", None,
                "YuniKorn application")  # fmt: skip
