"""A manifest that nobody has submitted yet, as its reader understands it.

Decides the shapes of what was read and of what is wrong with it. Refuses to judge what it will lead to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleet.ports.gangs import GangObject

Path = tuple[str | int, ...]
"""The keys and list places that lead from the document's root to a value."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """What an API server or operator would refuse, or cannot mean what it says."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """`key` as of its gang (`fleet.ports.gangs.Ref.key`); `spec_at` leads to the spec of the Ray cluster in it.
    `object` is None where it makes no pods of its own; with mistakes, what it says is not to be trusted."""

    key: str
    object: GangObject | None
    spec_at: Path
    mistakes: tuple[Mistake, ...] = ()


ManifestReader = Callable[[Any], Manifest | None]
"""Of one document's plain values; None for a kind that it does not read."""
