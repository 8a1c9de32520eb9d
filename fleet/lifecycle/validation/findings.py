"""What a test said, in one form for every program.

Decides the words of a result. Refuses a report without a complete result: `problem` then says why there is none, and
no result is never a pass. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MOST_FINDINGS = 1000
"""A level 3 run over sixteen GPUs gives some three hundred; whoever prints more prints garbage."""


class Status(StrEnum):
    PASS = "pass"  # noqa: S105  a result, no password
    WARN = "warn"
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Finding:
    """One result of one part of a test. `device` is "GPU 3", a mount, or "" for the whole node; `value` in `unit`."""

    name: str
    status: Status
    device: str = ""
    value: float | None = None
    unit: str = ""
    text: str = ""

    @property
    def place(self) -> str:
        return f"{self.name} on {self.device}" if self.device else self.name


@dataclass(frozen=True, slots=True)
class Report:
    """Everything one log told. `gpus` are the GPUs that were tested at all; empty where the program names none."""

    findings: tuple[Finding, ...] = ()
    problem: str = ""
    gpus: frozenset[int] = field(default_factory=frozenset)
