"""What else must be true before a node serves again: its counts agree and its facts are those of its pool.

Decides on numbers and facts alone. Refuses to take a missing number for an agreeing one, and a missing fact for the
pool's. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MIN_NODES = 3
"""Fewer healthy nodes than this make no profile."""
MOST = 0.5
"""A fact is the pool's when more than half of the nodes that tell it have it."""
SHARED = 2
"""A fact that this many other nodes in service have too is an upgrade under way, not drift of one node."""


@dataclass(frozen=True, slots=True)
class Counts:
    """GPUs of one node: expected by its profile, seen by its exporter, Kubernetes' capacity and allocatable.

    None: not known. `seen` None where no exporter has ever told of a GPU there."""

    expected: int | None
    seen: int | None
    capacity: int | None
    allocatable: int | None

    def problem(self) -> str:
        """What does not agree, as a sentence; "" when all do. A node without GPUs is not asked for any."""
        told = (self.seen, self.capacity, self.allocatable)
        if not self.expected:
            return "" if not any(told) else "How many GPUs the node should have is not known."
        if self.capacity is None or self.allocatable is None:
            return f"Kubernetes does not say how many GPUs the node has; {self.expected} are expected."
        if self.allocatable != self.expected:
            return f"Kubernetes offers {self.allocatable} of {self.expected} GPUs."
        if self.capacity != self.expected:
            return f"Kubernetes counts {self.capacity} GPUs; {self.expected} are expected."
        if self.seen is not None and self.seen != self.expected:
            return f"The exporter shows {self.seen} of {self.expected} GPUs."
        return ""


def profile_of(nodes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Fact -> the value that most of these nodes have; facts without such a value are left out."""
    found: dict[str, str] = {}
    for fact in sorted({fact for node in nodes for fact in node}):
        told = Counter(node[fact] for node in nodes if node.get(fact))
        value, count = told.most_common(1)[0] if told else ("", 0)
        if told.total() >= MIN_NODES and count > MOST * told.total():
            found[fact] = value
    return found


@dataclass(frozen=True, slots=True)
class Drift:
    """`differs` keeps the node out; `unknown` facts have no profile and are only told."""

    differs: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()


def drift_of(node: Mapping[str, str], others: Sequence[Mapping[str, str]], facts: Sequence[str]) -> Drift:
    """How the node's facts stand to those of the healthy nodes of its pool."""
    profile = profile_of(others)
    differs = []
    for fact in facts:
        wanted, has = profile.get(fact), node.get(fact, "")
        if wanted is None or has == wanted:
            continue
        if not has:
            differs.append(f"{fact}: not told, the pool has {wanted}")
        elif sum(other.get(fact) == has for other in others) < SHARED:
            differs.append(f"{fact}: {has}, the pool has {wanted}")
    return Drift(tuple(differs), tuple(fact for fact in facts if fact not in profile))
