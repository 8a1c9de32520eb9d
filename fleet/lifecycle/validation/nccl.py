"""Reads what the programs of nccl-tests print: a table of sizes with time, algorithm and bus bandwidth.

Decides that the bus bandwidth of the largest message is the measure (it does not depend on the number of ranks), and
that a wrong value in the result of a collective is a failure whatever its speed. Refuses a table without its closing
line: a run that was cut off has no result.
"""

from __future__ import annotations

import re

from fleet.lifecycle.validation.findings import Finding, Report, Status

_ROW = re.compile(r"^ {0,40}(\d{1,15}) {1,20}\d{1,15} {1,20}\w{1,20} {1,20}\w{1,20} {1,20}-?\d{1,6} {1,20}(.{1,200})$")
_BOUNDS = re.compile(r"^# Out of bounds values *: *(\d{1,12}) *(\w{0,10})")
_AVERAGE = re.compile(r"^# Avg bus bandwidth *: *(\d{1,9}(?:\.\d{1,9})?)")
_FAILURE = re.compile(r"(?:Test NCCL failure|Test CUDA failure|NCCL WARN .{0,40}(?:error|fail))", re.IGNORECASE)
_MOST_LINES = 200_000


def parse(log: str) -> Report:
    """Findings `busbw` (GB/s, the largest message), `busbw average` and, where results were wrong, `wrong values`."""
    largest, best, wrong = -1, 0.0, 0
    average: float | None = None
    bounded = False
    failure = ""
    for line in log.split("\n")[-_MOST_LINES:]:
        if row := _ROW.match(line):
            measured = _columns(row[2])
            if measured is None:
                continue
            size, (speed, bad) = int(row[1]), measured
            wrong += bad
            if size >= largest:
                best = max(best, speed) if size == largest else speed
                largest = size
        elif bounds := _BOUNDS.match(line):
            bounded = True
            wrong += int(bounds[1]) if bounds[2].upper() != "OK" else 0
        elif closing := _AVERAGE.match(line):
            average = float(closing[1])
        elif not failure and _FAILURE.search(line[:500]):
            failure = line.strip()[:300]
    if failure:
        return Report((Finding("collective", Status.FAIL, text=failure),))
    if wrong:
        return Report((Finding("wrong values", Status.FAIL, value=float(wrong), text="the sums came out wrong"),))
    if largest < 0:
        return Report(problem="the log holds no row of a bandwidth test")
    if average is None or not bounded:
        return Report(problem="the bandwidth test's result is cut off")
    text = f"message of {largest / 2**30:.3g} GiB" if largest >= 2**30 else f"message of {largest} B"
    return Report(
        (
            Finding("busbw", Status.PASS, value=best, unit="GB/s", text=text),
            Finding("busbw average", Status.PASS, value=average, unit="GB/s"),
        )
    )


def _columns(rest: str) -> tuple[float, int] | None:
    """(better bus bandwidth of out-of-place and in-place, wrong values); None where the row is no measurement.

    Each half is time, algbw, busbw, #wrong; #wrong is N/A where checking was switched off.
    """
    parts = rest.split()
    if len(parts) not in (4, 8):
        return None
    speeds, wrong = [], 0
    for start in range(0, len(parts), 4):
        try:
            speeds.append(float(parts[start + 2]))
        except ValueError:
            return None
        bad = parts[start + 3]
        if bad != "N/A":
            if not (bad.isascii() and bad.isdecimal() and len(bad) < 16):
                return None
            wrong += int(bad)
    best = max(speeds)
    return (best, wrong) if 0 <= best < 1e6 else None
