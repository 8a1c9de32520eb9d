"""YuniKorn's answers as it gives them, so that a test names only what counts."""

from __future__ import annotations

from typing import Any

from tests.builders import T0

Json = Any
GPU = "nvidia.com/gpu"
NS = int(T0.timestamp()) * 10**9
QUOTA = "Not enough queue quota"


def at(minutes: float) -> int:
    return NS + int(minutes * 60 * 10**9)


def asks(gpus: int = 8) -> Json:
    return {GPU: gpus, "vcore": 64_000, "memory": 512 << 30, "pods": 1}


def a_placeholder(name: str = "worker", count: int = 4, **more: Any) -> Json:
    return {"taskGroupName": name, "count": count, "minResource": asks(), "replaced": 0, "timedout": 0, **more}


def an_allocation(node: str, **more: Any) -> Json:
    return {
        "allocationKey": f"uid-{node}", "nodeId": node, "resource": asks(), "taskGroupName": "worker",
        "applicationId": "llm", "priority": "0", **more,
    }  # fmt: skip


def a_request(*words: str, **more: Any) -> Json:
    """Its log, the oldest first."""
    log = [{"message": word, "count": 3, "lastOccurrence": at(n + 1)} for n, word in enumerate(words)]
    return {"allocationKey": "uid", "resource": asks(), "taskGroupName": "worker", "allocationLog": log, **more}


def an_application(state: str = "Running", **more: Any) -> Json:
    """Four workers of eight GPUs in one task group."""
    return {
        "applicationID": "llm", "usedResource": {}, "partition": "default", "queueName": "root.train",
        "submissionTime": NS, "finishedTime": None, "requests": [], "allocations": [], "applicationState": state,
        "user": "ada", "groups": [], "rejectedMessage": "", "placeholderData": [a_placeholder()],
        "stateLog": [{"time": at(0), "applicationState": "New"}, {"time": at(1), "applicationState": "Accepted"}],
        "hasReserved": False, "reservations": [], "maxRequestPriority": 7, **more,
    }  # fmt: skip


def a_queue(name: str = "root.train", *children: Json, **more: Any) -> Json:
    return {
        "queuename": name, "status": "Active", "partition": "default", "pendingResource": {GPU: 32, "vcore": 1},
        "maxResource": {GPU: 64, "memory": 1}, "guaranteedResource": {GPU: 16}, "allocatedResource": {GPU: 24},
        "preemptingResource": {}, "headroom": {}, "isLeaf": not children, "isManaged": True, "properties": {},
        "parent": name.rpartition(".")[0], "children": list(children), "absUsedCapacity": {}, "maxRunningApps": 0,
        "runningApps": 2, **more,
    }  # fmt: skip


def a_node(name: str, *, schedulable: bool = True) -> Json:
    return {
        "nodeID": name, "hostName": name, "capacity": asks(), "available": asks(), "schedulable": schedulable,
        "isReserved": False, "reservations": [], "allocations": [],
    }  # fmt: skip
