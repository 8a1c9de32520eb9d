"""What the domain asks of a store of measurements that answers PromQL.

Decides the shapes of an answer: an instant vector as columns, because one holds a hundred thousand series, and ranges
as arrays of their own. What the store itself calls incomplete is said in `partial` and `warnings`. Refuses to hide a
hole: a value that is no number stays NaN, and an answer cut off is an error, never a short answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Vector:
    """One moment: series `labels[i]` had `values[i]` at `stamps[i]` (epoch seconds of the evaluation).

    `partial`: some of the store did not answer, so a series that is missing here proves nothing. `skipped` counts
    series whose value is no float (native histograms).
    """

    labels: Sequence[Mapping[str, str]]
    values: Floats
    stamps: Floats
    warnings: tuple[str, ...] = ()
    partial: bool = False
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class Curve:
    """One series over time."""

    labels: Mapping[str, str]
    stamps: Floats
    values: Floats


@dataclass(frozen=True, slots=True)
class Curves:
    curves: Sequence[Curve]
    warnings: tuple[str, ...] = ()
    partial: bool = False


class MetricsReader(Protocol):
    """Thread-safe. Every call ends within its time-out, and raises only `fleet.ports.errors.PortError`."""

    def instant(self, expression: str, at: datetime | None = None) -> Vector: ...

    def over(self, expression: str, since: datetime, until: datetime, step: float) -> Curves: ...

    def instants(self, expressions: Sequence[str]) -> list[Vector]:
        """Several at once, a bounded number side by side. The first failure is raised when all have ended."""
        ...

    def overs(self, expressions: Sequence[str], since: datetime, until: datetime, step: float) -> list[Curves]: ...
