"""Which parser reads the log of which kind of test.

Decides by the test's kind. Refuses to trust a log's words where the kind is `exit_code`: there the Job's own success is
the result.
"""

from __future__ import annotations

from collections.abc import Callable

from fleet.lifecycle.validation import dcgm, nccl, storage
from fleet.lifecycle.validation.findings import Finding, Report, Status

DCGM, NCCL, STORAGE, EXIT_CODE = "dcgm", "nccl", "storage", "exit_code"
KINDS = (DCGM, NCCL, STORAGE, EXIT_CODE)

_PARSERS: dict[str, Callable[[str], Report]] = {DCGM: dcgm.parse, NCCL: nccl.parse, STORAGE: storage.parse}


def read(kind: str, log: str, succeeded: bool) -> Report:
    """The report of a cleaned log. Never raises on what a container printed."""
    if kind == EXIT_CODE:
        return Report((Finding("exit code", Status.PASS if succeeded else Status.FAIL),))
    return _PARSERS[kind](log)
