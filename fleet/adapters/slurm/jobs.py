"""Slurm's jobs as gangs: a job is placed whole or not at all.

Decides what each of its reasons means, that its ranks are its nodes, and that a wait begins when it became eligible (a
requeue moves that, the submission does not). Refuses steps and finished jobs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleet.adapters.slurm.values import gpus, hosts, moment, number, states
from fleet.ports.gangs import GangObject, Match, Member, Need, Part, ReasonCode, Ref, Said, Toleration
from fleet.ports.shapes import MOST, strings, text

_WAITS = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
ENDING = "COMPLETING"
_HOLDS = frozenset({
    "RUNNING", "SUSPENDED", ENDING, "CONFIGURING", "POWER_UP_NODE", "RESIZING", "STOPPED", "SIGNALING",
    "STAGE_OUT", "EXPEDITING",
})  # fmt: skip
"""States of a job that has nodes. Up to 22.05 a job tells one word, so that a flag stands there for its state."""
EVERY_TAINT = (Toleration("", "Exists", "", ""),)
"""On a node that Kubernetes knows too its taints keep pods away: Slurm does not know them."""
REASONS: dict[str, ReasonCode] = {
    "Resources": "CAPACITY",
    "Constraints": "CAPACITY",
    "Priority": "PRIORITY_BEHIND",
    "ReqNodeNotAvail": "NODE_UNHEALTHY",
    "NodeDown": "NODE_UNHEALTHY",
    "BadConstraints": "EXCEEDS_MAX",
    "PartitionNodeLimit": "EXCEEDS_MAX",
    "PartitionTimeLimit": "EXCEEDS_MAX",
    "PartitionConfig": "EXCEEDS_MAX",
    "PartitionDown": "QUEUE_STOPPED",
    "PartitionInactive": "QUEUE_STOPPED",
    "JobHeldUser": "SUSPENDED",
    "JobHeldAdmin": "SUSPENDED",
    "JobHoldMaxRequeue": "SUSPENDED",
    "launch_failed_requeued_held": "SUSPENDED",
    "job_requeued_in_held_state": "SUSPENDED",
    "Dependency": "ADMISSION_CHECK",
    "DependencyNeverSatisfied": "SUSPENDED",
    "BeginTime": "ADMISSION_CHECK",
    "Reservation": "ADMISSION_CHECK",
    "ReservationDeleted": "SUSPENDED",
    "Licenses": "QUOTA",
    "Prolog": "IMAGE_OR_INIT",
    "Cleaning": "ADMISSION_CHECK",
    "JobArrayTaskLimit": "QUOTA",
    "AccountingPolicy": "QUOTA",
    "MaxPoweredUpNodes": "QUOTA",
    "QOSNotAllowed": "QUEUE_STOPPED",
    "AccountNotAllowed": "QUEUE_STOPPED",
    "InvalidAccount": "QUEUE_STOPPED",
    "InvalidQOS": "QUEUE_STOPPED",
    "DeadLine": "EXCEEDS_MAX",
    "FrontEndDown": "NODE_UNHEALTHY",
    "PowerNotAvail": "CAPACITY",
    "PowerReserved": "CAPACITY",
    "MpiPortsBusy": "CAPACITY",
    "MaxMemPerLimit": "EXCEEDS_MAX",
    "SchedDefer": "ADMISSION_CHECK",
    "SystemFailure": "BIND_FAILED",
    "JobLaunchFailure": "BIND_FAILED",
    "BurstBufferResources": "ADMISSION_CHECK",
    "BurstBufferStageIn": "ADMISSION_CHECK",
    "BurstBufferOperation": "SUSPENDED",
    "FedJobLock": "ADMISSION_CHECK",
    "ReservationInvalid": "SUSPENDED",
}
_OF_THE_LAST_RUN = frozenset({"NonZeroExitCode", "RaisedSignal", "TimeLimit", "InactiveLimit", "OutOfMemory", "None"})
"""Why the run before has ended, which a requeued job still says: nothing of why it waits now."""
_LIMITS, _OF_AN_ACCOUNT = ("Assoc", "QOS"), "PerAccount"
_OF_ONE_JOB = (
    "PerJob",
    "PerNode",
    "QOSMin",
    "MaxWallDuration",
)  # limits that the job breaks by itself: it never starts
_SAID: tuple[tuple[str, ReasonCode], ...] = (
    ("Nodes required for job are", "NODE_UNHEALTHY"),
    ("Reserved for maintenance", "ADMISSION_CHECK"),
    ("reserved for other job", "PRIORITY_BEHIND"),  # of nodes planned for somebody in front, too
)
"""What is said behind the reason, or instead of it, goes before the reason."""


def waits(raw: dict[str, Any]) -> bool:
    """For nodes. One that is requeued may wait while it still ends on those it had."""
    state = states(raw.get("job_state"))
    return "PENDING" in state or bool(state & _WAITS and not state & _HOLDS)


def holds(raw: dict[str, Any]) -> bool:
    """Its nodes."""
    state = states(raw.get("job_state"))
    return bool(state & _HOLDS) and not ("PENDING" in state and ENDING not in state)


def is_open(raw: dict[str, Any]) -> bool:
    return waits(raw) or holds(raw)


def gang(raw: dict[str, Any]) -> GangObject:
    state, waiting = states(raw.get("job_state")), waits(raw)
    nodes = max(1, number(raw.get("node_count")) or 1)
    need = need_of(raw, nodes)
    reason = text(raw.get("state_reason"))
    eligible = moment(raw.get("eligible_time")) or moment(raw.get("submit_time"))
    return GangObject(
        ref_of(raw),
        places=True,
        owner=text(raw.get("user_name")) or text(raw.get("account")),
        queue=text(raw.get("partition")).split(",")[0],
        priority=number(raw.get("priority")) or 0,
        created_at=moment(raw.get("submit_time")),
        waits_since=eligible,
        started_at=None if waiting else moment(raw.get("start_time")),
        suspended=waiting and meaning(reason, "") == "SUSPENDED",
        admitted=None,
        phase=" ".join(sorted(state)),
        wanted=nodes,
        minimum=nodes,
        parts=(Part("", nodes, minimum=nodes, need=need),),
        said=tuple(_said(raw, reason)) if waiting else (),
        planned_nodes=hosts(raw.get("scheduled_nodes")) if waiting else (),
        guarantee="whole",
    )


def ref_of(raw: dict[str, Any]) -> Ref:
    """Array tasks and parts of heterogeneous jobs are jobs with numbers of their own."""
    return Ref("slurm", "Job", text(raw.get("partition")).split(",")[0], str(number(raw.get("job_id")) or 0))


def members(raw: dict[str, Any]) -> list[Member]:
    if not holds(raw):
        return []
    ref, names = ref_of(raw), hosts(raw.get("nodes"))
    needs = needs_of(raw, len(names))
    ending = ENDING in states(raw.get("job_state"))
    return [
        Member(
            key=f"slurm:{ref.name}/{rank}",
            uid="",
            node=name,
            state="ready",
            need=needs[rank],
            links=(ref.key,),
            queue=ref.namespace,
            created_at=moment(raw.get("submit_time")),
            ending=ending,
        )
        for rank, name in enumerate(names)
    ]


def needs_of(raw: dict[str, Any], nodes: int) -> list[Need]:
    """What each of the nodes that it holds gives to it: as Slurm tells of each, else as much of all."""
    need, told = need_of(raw, max(1, nodes)), strings(raw.get("gres_detail"))
    if len(told) != nodes or not any(map(gpus, told)):
        return [need] * nodes
    apart = {count: replace(need, gpus=min(count, MOST)) for count in set(map(gpus, told))}
    return [apart[gpus(one)] for one in told]


def need_of(raw: dict[str, Any], nodes: int) -> Need:
    """What one node gives to the job. Requests come per node, per job, or as a sum over all nodes."""
    per_node = gpus(raw.get("tres_per_node") or raw.get("gres"))
    if not per_node:
        per_job = gpus(raw.get("tres_per_job")) or gpus(raw.get("tres_req_str"))
        per_node = -(-per_job // nodes)
    if not per_node and (per_task := gpus(raw.get("tres_per_task"))):
        tasks = number(raw.get("tasks_per_node")) or -(-(number(raw.get("tasks")) or nodes) // nodes)
        per_node = per_task * tasks
    if not per_node:
        per_node = gpus(raw.get("tres_per_socket")) * (number(raw.get("sockets_per_node")) or 1)
    if not per_node and holds(raw):
        per_node = -(-_given(raw) // nodes)
    cores = max(1, number(raw.get("minimum_cpus_per_node")) or 1, -(-(number(raw.get("cpus")) or 1) // nodes))
    asked = tuple(hosts(raw.get("required_nodes")))
    banned = tuple(hosts(raw.get("excluded_nodes")))
    terms = [Match("metadata.name", "NotIn", banned)] if banned else []
    terms += [Match("metadata.name", "In", asked)] if len(asked) >= nodes else []
    first, *others = text(raw.get("partition")).split(",")
    anywhere = [(Match(f"partition/{name}", "Exists"), *terms) for name in (first, *others)] if others else []
    return Need(
        gpus=max(0, min(per_node, MOST)),
        cpu_millis=cores * 1000,
        memory_mib=_memory(raw, cores),
        selector=() if others else ((f"partition/{first}", ""),),
        any_of=tuple(anywhere) or ((tuple(terms),) if terms else ()),
        tolerations=EVERY_TAINT,
        whole_node=_is_exclusive(raw),
    )


def _given(raw: dict[str, Any]) -> int:
    """GPUs of all its nodes that it holds without having asked for any: with a whole node come the node's."""
    return sum(gpus(one) for one in strings(raw.get("gres_detail"))) or gpus(raw.get("tres_alloc_str"))


def _memory(raw: dict[str, Any], cores: int) -> int:
    per_node, per_cpu = number(raw.get("memory_per_node")), number(raw.get("memory_per_cpu"))
    return per_node if per_node else (per_cpu or 0) * cores


def _is_exclusive(raw: dict[str, Any]) -> bool:
    shared, exclusive = raw.get("shared"), raw.get("exclusive")
    return (
        (isinstance(shared, list) and "none" in shared)
        or (isinstance(exclusive, list) and "true" in exclusive)
        or number(exclusive) == 1
        or shared == "none"
    )


def meaning(reason: str, description: str) -> ReasonCode:
    told = f"{reason} {description}".replace("_", " ")
    for words, code in _SAID:
        if words in told:
            return code
    word = reason.strip("()").partition(",")[0]  # some tools put a list of nodes behind it
    found = REASONS.get(word) or REASONS.get(word.replace(" ", "_"))
    if found is not None:
        return found
    if word.startswith(_LIMITS):
        return "EXCEEDS_MAX" if any(part in word for part in _OF_ONE_JOB) else "QUOTA"
    return "QUOTA" if word.endswith(_OF_AN_ACCOUNT) else "UNKNOWN"


def _said(raw: dict[str, Any], reason: str) -> list[Said]:
    described = text(raw.get("state_description"))
    if not reason or reason in _OF_THE_LAST_RUN:
        return []
    words = f"{reason}: {described}" if described else reason
    at = moment(raw.get("last_sched_evaluation"))
    # "Resources" may only mean that nobody looked yet, so arithmetic goes before it; a limit it cannot see.
    return [Said(meaning(reason, described), words, at, f"Slurm state_reason {reason}")]
