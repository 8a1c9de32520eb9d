"""Ray's answers as values: placement groups, nodes, jobs, and what waits for GPUs.

Decides what an odd or missing field means: nothing known of it, and an entry without an id is left out and counted.
Refuses to judge, and to believe a list that Ray itself cut short.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar, cast, get_args

from fleet.ports.ray import PlacementGroup, PlacementState, RayJobSeen, RayNode
from fleet.ports.shapes import items, mapping, text, texts

NAME, WORDS = 253, 2_000  # characters that are kept of a name, of a message
STATES = frozenset(get_args(PlacementState))
JOB_STATES = frozenset({"PENDING", "RUNNING", "SUCCEEDED", "FAILED", "STOPPED"})
_USAGE = re.compile(
    r"([\d.]+)/([\d.]+) GPU\b(?: \(([\d.]+) used of ([\d.]+) reserved in placement groups\))?"
)  # of "Total Usage"
_SHAPE = re.compile(r"(\{[^{}]*\})(?: \* (\d{1,9}))?")  # what a task or bundle asks for, times so many bundles
_ASKED = re.compile(r"'GPU': ([\d.]+)")
_LAST_MS = 253_370_764_800_000  # in the year 9000
Entry = TypeVar("Entry")


def listed(answer: Any) -> tuple[list[dict[str, Any]], bool]:
    """The entries of the state API's answer, and whether they are all: neither cut short nor with sources missing."""
    told = mapping(mapping(mapping(answer).get("data")).get("result"))
    found = items(told.get("result"))
    raw = told.get("result")
    total, kept = count(told.get("total")), count(told.get("num_after_truncation"))
    filtered = count(told.get("num_filtered"))
    cut = (total or 0) > (kept if kept is not None else total or 0) or (filtered or 0) > len(found)
    whole = isinstance(raw, list) and not cut and not told.get("partial_failure_warning")
    return found, whole


def each(entries: Iterable[dict[str, Any]], decode: Callable[[dict[str, Any]], Entry | None]) -> tuple[Entry, ...]:
    return tuple(found for found in map(decode, entries) if found is not None)


def placement_group(raw: dict[str, Any]) -> PlacementGroup | None:
    id_, state = name(raw.get("placement_group_id")), text(raw.get("state"))
    if not id_:
        return None
    bundles = items(raw.get("bundles"))
    return PlacementGroup(
        id=id_,
        name=name(raw.get("name")),
        state=cast("PlacementState", state) if state in STATES else "UNKNOWN",
        scheduling=name(mapping(raw.get("stats")).get("scheduling_state")),
        detached=raw.get("is_detached") is True,
        job=name(raw.get("creator_job_id")),
        strategy=name(raw.get("strategy")),
        bundles=tuple(resources(bundle.get("unit_resources")) for bundle in bundles),
        nodes=tuple(node for bundle in bundles if (node := name(bundle.get("node_id")))),
    )


def node(raw: dict[str, Any]) -> RayNode | None:
    id_ = name(raw.get("node_id"))
    if not id_:
        return None
    total = dict(resources(raw.get("resources_total")))
    return RayNode(
        id=id_,
        name=name(raw.get("node_name")),
        ip=name(raw.get("node_ip")),
        alive=text(raw.get("state")) == "ALIVE",
        head=raw.get("is_head_node") is True,
        gpus_total=total.get("GPU", 0.0),
        gpus_used=None,
        labels=tuple(sorted((name(key), name(value)) for key, value in texts(raw.get("labels")).items())),
    )


def job(raw: dict[str, Any]) -> RayJobSeen | None:
    id_, submission, status = name(raw.get("job_id")), name(raw.get("submission_id")), text(raw.get("status"))
    if not id_ and not submission:
        return None
    return RayJobSeen(
        id=id_,
        submission=submission,
        status=status if status in JOB_STATES else "UNKNOWN",
        message=text(raw.get("message"))[:WORDS],
        started_at=milliseconds(raw.get("start_time")),
        ended_at=milliseconds(raw.get("end_time")),
    )


def group_of_actor(raw: dict[str, Any]) -> str | None:
    """The placement group that a living actor uses. An actor whose state is no word that ends it counts as living."""
    return None if text(raw.get("state")) == "DEAD" else name(raw.get("placement_group_id")) or None


def usage(formatted: str) -> tuple[float, float, float] | None:
    """GPUs used, in all, and reserved by placement groups for nobody; None where Ray does not tell."""
    match = _USAGE.search(formatted)
    if match is None:
        return None
    used, total, inside, reserved = (quantity(part) for part in match.groups())
    return used or 0.0, total or 0.0, max(0.0, (reserved or 0.0) - (inside or 0.0))


def largest_ask(formatted: str) -> float | None:
    """Most GPUs that one waiting task, actor or bundle asks of a node; None when none waits. All bundles of a group
    that is packed strictly must share one."""
    lines = formatted.partition("Demands:")[2].splitlines()
    return max((asked for line in lines if (asked := _asked(line))), default=None)


def _asked(line: str) -> float:
    shapes = [(quantity(told[1]) or 0.0, int(many or 1)) for shape, many in _SHAPE.findall(line)
              if (told := _ASKED.search(shape))]  # fmt: skip
    if "(STRICT_PACK)" in line:
        return sum(gpus * many for gpus, many in shapes)
    return max((gpus for gpus, _ in shapes), default=0.0)


def resources(raw: Any) -> tuple[tuple[str, float], ...]:
    """Positive amounts by name, sorted."""
    told = ((name(key), quantity(value)) for key, value in mapping(raw).items())
    return tuple(sorted((key, amount) for key, amount in told if key and amount))


def quantity(value: Any) -> float | None:
    """A finite amount that is not negative."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and 0 <= found < 1e15 else None


def count(value: Any) -> int | None:
    found = quantity(value)
    return None if found is None else int(min(found, 10**9))


def milliseconds(value: Any) -> datetime | None:
    """0 is "not yet"."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < _LAST_MS:
        return None
    return datetime.fromtimestamp(value / 1000, UTC)


def name(value: Any) -> str:
    return text(value)[:NAME]
