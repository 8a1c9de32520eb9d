"""Numbers that mean "no value".

Decides which values of a scrape are not measurements: the blank codes of DCGM (an exporter before 4.5.2 lets them
through), NaN, infinities, and values outside what the metric can physically be. Refuses to repair: such a sample is
dropped and counted by kind.

The four 64-bit blanks all become exactly 2^63 once they are floats. The floating-point blanks are compared exactly,
because a byte counter may honestly pass 1.4e14; the 32-bit ones only on gauges, for the same reason.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

INT64_BLANK = 9.22e18
INT32_BLANKS = (2147483632.0, 2147483635.0)
FP64_BLANKS = (140737488355328.0, 140737488355331.0)


def judge(
    values: NDArray[np.float64],
    gauge: NDArray[np.bool_],
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    counts: Counter[str],
) -> NDArray[np.bool_] | None:
    """Which values to keep, or None when all are fine (the usual case, and cheap)."""
    with np.errstate(invalid="ignore"):
        if bool(((values >= lo) & (values <= hi) & (values < INT32_BLANKS[0])).all()):
            return None
        nan = np.isnan(values)
        blank = (values >= INT64_BLANK) & np.isfinite(values)
        whole = values == np.floor(values)
        blank |= whole & (values >= FP64_BLANKS[0]) & (values <= FP64_BLANKS[1])
        blank |= gauge & whole & (values >= INT32_BLANKS[0]) & (values <= INT32_BLANKS[1])
        infinite = np.isinf(values)
        absurd = ~(nan | blank | infinite) & ~((values >= lo) & (values <= hi))
    for kind, mask in (("nan", nan), ("blank", blank), ("infinite", infinite), ("absurd_value", absurd)):
        found = int(mask.sum())
        if found:
            counts[kind] += found
    keep: NDArray[np.bool_] = ~(nan | blank | infinite | absurd)
    return keep
