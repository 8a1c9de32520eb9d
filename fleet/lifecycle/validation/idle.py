"""Which idle node is tested next, and when a test must go.

Decides on what is known of the nodes: who is due, in which order, and how many at once. Refuses a node with work, one
that anything is wrong with or anybody has a hand on, and any start while a pod waits for GPUs. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from fleet.lifecycle.validation.suite import BurnIn

AGAIN = timedelta(hours=1)
"""After a test that came to nothing (work came, no result) the node is left alone for this long."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One idle node and one of its tests. `tested_at` is the last result, `tried_at` the last start of any kind."""

    node_id: int
    name: str
    test: str
    seen_since: datetime
    tested_at: datetime | None
    tried_at: datetime | None


def open_now(policy: BurnIn, now: datetime) -> bool:
    """Is `now` within the policy's hours, on the wall clock of its own zone? They may span midnight."""
    if policy.start is None or policy.end is None:
        return True
    wall: time = now.astimezone(ZoneInfo(policy.zone)).time()
    if policy.start < policy.end:
        return policy.start <= wall < policy.end
    return wall >= policy.start or wall < policy.end


def due_at(candidate: Candidate, policy: BurnIn) -> datetime:
    """A node that was never tested has its own place within the first round, so that not all are due at once."""
    if candidate.tested_at is not None:
        return candidate.tested_at + policy.every
    digest = hashlib.md5(f"{candidate.name}/{candidate.test}".encode(), usedforsecurity=False).digest()
    return candidate.seen_since + policy.every * (int.from_bytes(digest[:4], "big") / 2**32)


def choose(candidates: Iterable[Candidate], policy: BurnIn, running: int, now: datetime) -> list[Candidate]:
    """Whose test may begin now, the longest overdue first; one test per node."""
    room = policy.at_once - running
    if room <= 0 or not open_now(policy, now):
        return []
    chosen: dict[int, Candidate] = {}
    for candidate in sorted(candidates, key=lambda one: (due_at(one, policy), one.node_id, one.test)):
        if len(chosen) >= room or due_at(candidate, policy) > now:
            break
        if candidate.tried_at is None or candidate.tried_at + AGAIN <= now:
            chosen.setdefault(candidate.node_id, candidate)
    return list(chosen.values())
