"""Slurm's jobs as gangs: a job is placed whole or not at all.

Decides what each of its reasons means, that its ranks are its nodes, and that a wait begins when it became eligible (a
requeue moves that, the submission does not). Refuses steps and finished jobs.
"""

from __future__ import annotations

from typing import Any

from fleet.adapters.slurm.values import gpus, hosts, moment, number, states
from fleet.ports.gangs import GangObject, Match, Member, Need, Part, ReasonCode, Ref, Said, Toleration
from fleet.ports.shapes import strings, text

WAITING, RUNNING = frozenset({"PENDING"}), frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT", "SIGNALING"})
REQUEUED = frozenset({"REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT"})
EVERY_TAINT = (Toleration("", "Exists", "", ""),)
"""On a node that Kubernetes knows too its taints keep pods away: Slurm does not know them."""
REASONS: dict[str, ReasonCode] = {
    "Resources": "CAPACITY",
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
    "BurstBufferResources": "ADMISSION_CHECK",
    "BurstBufferStageIn": "ADMISSION_CHECK",
    "BurstBufferOperation": "SUSPENDED",
    "FedJobLock": "ADMISSION_CHECK",
    "ReservationInvalid": "SUSPENDED",
}
_LIMITS = ("Assoc", "QOS", "MaxCpu", "MaxGRES", "MaxJobs", "MaxNode", "MaxTRES", "MaxMem", "MaxBilling", "MaxSubmit")
_OF_ONE_JOB = (
    "PerJob",
    "PerNode",
    "QOSMin",
    "MaxWallDuration",
)  # limits that the job breaks by itself: it never starts
_UNAVAILABLE = "Nodes required for job are DOWN, DRAINED or reserved"


def is_open(raw: dict[str, Any]) -> bool:
    return bool(states(raw.get("job_state")) & (WAITING | RUNNING))


def gang(raw: dict[str, Any]) -> GangObject:
    state = states(raw.get("job_state"))
    waits = bool(state & WAITING)
    nodes = number(raw.get("node_count")) or 1
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
        started_at=None if waits else moment(raw.get("start_time")),
        suspended=waits and meaning(reason, "") == "SUSPENDED",
        admitted=None,
        phase=" ".join(sorted(state)),
        wanted=nodes,
        minimum=nodes,
        parts=(Part("", nodes, minimum=nodes, need=need),),
        said=tuple(_said(raw, reason)) if waits else (),
        planned_nodes=hosts(raw.get("scheduled_nodes")) if waits else (),
        guarantee="whole",
    )


def ref_of(raw: dict[str, Any]) -> Ref:
    """Array tasks and parts of heterogeneous jobs are jobs with numbers of their own."""
    return Ref("slurm", "Job", text(raw.get("partition")).split(",")[0], str(number(raw.get("job_id")) or 0))


def members(raw: dict[str, Any]) -> list[Member]:
    if states(raw.get("job_state")) & WAITING:
        return []
    ref, names = ref_of(raw), hosts(raw.get("nodes"))
    need = need_of(raw, max(1, len(names)))
    ending = "COMPLETING" in states(raw.get("job_state"))
    return [
        Member(
            key=f"slurm:{ref.name}/{rank}",
            uid="",
            node=name,
            state="ready",
            need=need,
            links=(ref.key,),
            queue=ref.namespace,
            created_at=moment(raw.get("submit_time")),
            ending=ending,
        )
        for rank, name in enumerate(names)
    ]


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
    if not per_node and not states(raw.get("job_state")) & WAITING:
        per_node = -(-_given(raw) // nodes)
    cores = max(number(raw.get("minimum_cpus_per_node")) or 1, -(-(number(raw.get("cpus")) or 1) // nodes))
    asked = tuple(hosts(raw.get("required_nodes")))
    banned = tuple(hosts(raw.get("excluded_nodes")))
    terms = [Match("metadata.name", "NotIn", banned)] if banned else []
    terms += [Match("metadata.name", "In", asked)] if len(asked) >= nodes else []
    first, *others = text(raw.get("partition")).split(",")
    anywhere = [(Match(f"partition/{name}", "Exists"), *terms) for name in (first, *others)] if others else []
    return Need(
        gpus=per_node,
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
    if _UNAVAILABLE in description:
        return "NODE_UNHEALTHY"
    if "reserved for other job" in description:  # 24.11 says so of nodes planned for somebody in front, too
        return "PRIORITY_BEHIND"
    word = reason.strip("()").partition(",")[0]  # some tools put a list of nodes behind it
    found = REASONS.get(word) or REASONS.get(word.replace(" ", "_"))
    if found is not None:
        return found
    if word.startswith(_LIMITS):
        return "EXCEEDS_MAX" if any(part in word for part in _OF_ONE_JOB) else "QUOTA"
    if word.replace("_", " ").startswith("Nodes required for job are"):
        return "NODE_UNHEALTHY"
    return "UNKNOWN"


def _said(raw: dict[str, Any], reason: str) -> list[Said]:
    described = text(raw.get("state_description"))
    if not reason or reason == "None":
        return []
    words = f"{reason}: {described}" if described else reason
    at = moment(raw.get("last_sched_evaluation"))
    # "Resources" may only mean that nobody looked yet, so arithmetic goes before it; a limit it cannot see.
    return [Said(meaning(reason, described), words, at, f"Slurm state_reason {reason}")]
