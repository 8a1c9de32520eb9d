"""A test as a job of Slurm, in the words of each version of its REST API.

Decides what such a job asks for: the one node of its reservation, whole, for its command alone, with an environment
that holds nothing of ours. The command line is not used for this: sbatch hands the token of whoever calls it to the
job. Refuses to be requeued, and (by its dependency) to run beside another of its name. Pure.
"""

from __future__ import annotations

import re
from typing import Any

from fleet.adapters.slurm import Space
from fleet.adapters.slurm.reservations import is_ours
from fleet.adapters.slurm.scripts import output, script
from fleet.ports.cluster import JobRequest
from fleet.ports.shapes import mapping, text

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin:/opt/slurm/bin"
_COMMENT = re.compile(r"Muster tests (?P<node>\S+)\. (?P<mark>.*)", re.DOTALL)
LISTS_FROM, SHARED_FROM = 39, 40
"""Versions from which an environment is a list, and from which a whole node is asked for by `shared`."""


def payload(
    request: JobRequest, name: str, reservation: str, partition: str, mark: str, space: Space, version: int
) -> dict[str, Any]:
    """The body of `job/submit`; `version` is 38 for v0.0.38. The time limit is in whole minutes, rounded up."""
    minutes = -(-request.deadline_seconds // 60)
    job: dict[str, Any] = {
        "name": name,
        "comment": comment(request.node, mark),
        "partition": space.partition or partition,
        "reservation": reservation,
        "tasks": 1,
        "requeue": False,
        "dependency": "singleton",
        "current_working_directory": "/",
        "standard_output": output(space.output, name),
    }
    job |= {key: value for key, value in (("account", space.account), ("qos", space.qos)) if value}
    if version < LISTS_FROM:
        job |= {"nodes": 1, "exclusive": "exclusive", "time_limit": minutes, "memory_per_node": 0}
        job |= {"environment": {"PATH": PATH}} | ({"gres": f"gpu:{request.gpus}"} if request.gpus else {})
    else:
        job |= {"nodes": "1", "time_limit": _number(minutes), "memory_per_node": _number(0)}
        job |= {"shared": ["none"]} if version >= SHARED_FROM else {"exclusive": ["true"]}
        job |= {"environment": [f"PATH={PATH}"]}
        job |= {"tres_per_node": f"gres/gpu:{request.gpus}"} if request.gpus else {}
    return {"job": job, "script": script(request.command)}


def comment(node: str, mark: str) -> str:
    """What a job of ours says of itself: its node, and the mark of the hold while the node's reason cannot keep it."""
    return f"Muster tests {node}. {mark}"


def said(raw: dict[str, Any]) -> tuple[str, str]:
    """(node, mark) of a job's comment; ("", "") of one that is not ours."""
    found = _COMMENT.fullmatch(text(raw.get("comment")) or text(mapping(raw.get("comment")).get("job")))
    return (found["node"], found["mark"]) if found else ("", "")


def is_test(raw: dict[str, Any]) -> bool:
    """Is it one of ours? Anybody may write such a comment, and nobody else may use our reservations."""
    return bool(said(raw)[0]) and is_ours(text(raw.get("resv_name")))


def _number(value: int) -> dict[str, Any]:
    return {"set": True, "infinite": False, "number": value}
