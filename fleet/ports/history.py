"""What pages ask of a node's past, wherever it is kept.

Decides the shape: rows over time, one value per GPU slot, with the lowest and highest where rows stand for longer than
one sample. Refuses to fill gaps: what was not measured is None.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

Rows = Sequence[tuple[datetime, dict[str, Any]]]
"""(at, {"gpu_temp": [per slot or None], ..., "ib_rx": bytes/s or None}); oldest first."""

Keeper = Literal["embedded", "promql"]


@dataclass(frozen=True, slots=True)
class Whose:
    """A node as stores know it: its row here, and every name under which exporters spoke for it."""

    node_id: int
    name: str
    names: tuple[str, ...] = ()  # host names and addresses, its own name included


@dataclass(frozen=True, slots=True)
class Past:
    """`step` is the seconds between rows; `low` and `high` are empty where rows are samples."""

    rows: Rows
    step: float
    kept: Keeper
    low: Rows = ()
    high: Rows = ()
    notes: Sequence[str] = field(default_factory=tuple)  # what is to be said of it, in sentences


class History(Protocol):
    def past(self, whose: Whose, since: datetime, until: datetime, measures: Sequence[str] = ()) -> Past:
        """Of `measures` only, or of all. At most a few hundred rows. Raises only PortError."""
        ...
