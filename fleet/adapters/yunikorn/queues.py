"""YuniKorn's tree of queues.

Decides that only GPUs are quotas here, and that a queue which is stopped or draining takes no more. Refuses to add a
child's use to its parent's: YuniKorn has done so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fleet.adapters.yunikorn.values import count, devices
from fleet.ports.gangs import QueueObject, Quota, Ref, Said
from fleet.ports.shapes import items, text

STOPPED = ("Stopped", "Draining")
DEEPEST = 32
DEFAULT = "default"


def tree(raw: dict[str, Any], partition: str, waiting: dict[str, int], depth: int = 0) -> Iterator[QueueObject]:
    """The queue and all below it. `waiting`: queue -> applications that wait there."""
    name = text(raw.get("queuename"))
    if name:
        yield _queue(raw, name, partition, waiting)
    if depth < DEEPEST:
        for child in items(raw.get("children")):
            yield from tree(child, partition, waiting, depth + 1)


def is_full(raw: dict[str, Any], depth: int = 0) -> Iterator[str]:
    """Queues that run as many applications as they or one above them may."""
    most = count(raw.get("maxRunningApps"))
    here = most > 0 and count(raw.get("runningApps")) >= most
    for child in items(raw.get("children")) if depth < DEEPEST else ():
        yield from (_names(child) if here else is_full(child, depth + 1))
    if here:
        yield text(raw.get("queuename"))


def _names(raw: dict[str, Any], depth: int = 0) -> Iterator[str]:
    yield text(raw.get("queuename"))
    for child in items(raw.get("children")) if depth < DEEPEST else ():
        yield from _names(child, depth + 1)


def _queue(raw: dict[str, Any], name: str, partition: str, waiting: dict[str, int]) -> QueueObject:
    status = text(raw.get("status"))
    quotas = tuple(_quotas(raw))
    shares = [quota.used / quota.guaranteed for quota in quotas if quota.guaranteed]
    stopped = status in STOPPED
    return QueueObject(
        Ref("yunikorn", "Queue", "" if partition == DEFAULT else partition, name[:253]),
        parent=text(raw.get("parent")),
        stopped=stopped,
        quotas=quotas,
        share=max(shares, default=None),
        share_text="allocated / guaranteed" if shares else "",
        waiting=waiting.get(name, 0) if raw.get("isLeaf") in (True, "true") else None,  # a text in old releases
        running=count(raw.get("runningApps")),
        said=(Said("QUEUE_STOPPED", f"The queue is {status}.", None, "YuniKorn queue"),) if stopped else (),
    )


def _quotas(raw: dict[str, Any]) -> Iterator[Quota]:
    """A resource that `maxResource` does not name has no ceiling of its own."""
    parts = ("guaranteedResource", "maxResource", "allocatedResource", "pendingResource")
    guaranteed, most, used, wanted = (devices(raw.get(part)) for part in parts)
    for name in sorted({*guaranteed, *most, *used, *wanted}):
        due, taken = guaranteed.get(name), used.get(name, 0)
        yield Quota(
            "",
            name,
            guaranteed=None if due is None else float(due),
            used=float(taken),
            borrowed=float(max(0, taken - (due or 0))) if due is not None else 0.0,
            ceiling=float(most[name]) if name in most else None,
            wanted=float(wanted.get(name, 0)),
        )
