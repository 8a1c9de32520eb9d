"""Metrics that an exporter tells in another unit than the one they are known in.

Decides by what a value is multiplied, from the name that it came under (`names.SCALED`). A row is cached with the text
of its series, so the factor travels in the row's upper bits: what was read is then right however the exporter spells
the metric today, and a series of the usual unit costs nothing. Refuses to guess a unit from a value.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleet.telemetry import names

SHIFT: Final = 27  # 134 million rows, and sixteen factors in what is left of 31 bits
_ROW: Final = (1 << SHIFT) - 1
_FACTORS = (1.0, *dict.fromkeys(factor for _, factor in names.SCALED.values()))
_NUMBERS = {name: _FACTORS.index(factor) for name, (_, factor) in names.SCALED.items()}
_BY_NUMBER = np.array(_FACTORS)
assert len(_FACTORS) <= 16  # noqa: S101 - of the table, when it is loaded


def marked(row: int, name: str) -> int:
    """The row of a series of that name, with its factor; a reject code as it is."""
    number = _NUMBERS.get(name, 0)
    return row | number << SHIFT if number and row >= 0 else row


def applied(rows: NDArray[np.int64], values: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows without their factors, and the values in the units that the metrics are known in."""
    numbers = np.where(rows >= 0, rows >> SHIFT, 0)
    return np.where(rows >= 0, rows & _ROW, rows), values * _BY_NUMBER[numbers]
