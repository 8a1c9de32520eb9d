"""The mark of a hold of ours in a node's reason, the only text of ours that Slurm keeps with a node.

Decides how a hold, the installation it belongs to, why it is there and the reason that stood there before are written
in one line and read again. Refuses to read a mark out of anything that does not begin with ours: a person who drains
the node on top of us writes another reason, and is then the one who holds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

LONGEST = 400  # characters of a reason; Slurm takes more, its tools do not show them
_BEFORE = " | before: "
_MARK = re.compile(
    r"Muster hold (?P<value>\S+) by (?P<by>[\w.-]+)(?:: (?P<why>.*?))?(?: \| before: (?P<before>.*))?", re.DOTALL
)
_APPENDED = re.compile(
    r"(?: : (?:reboot (?:\w+|timed out)|ResumeTimeout reached))+$"
)  # slurmctld's own remark behind a reason


@dataclass(frozen=True, slots=True)
class Mark:
    """`before` is the reason of whoever held the node first, "" when nobody did."""

    value: str  # <incident>/<op_id>
    by: str  # the installation
    why: str = ""
    before: str = ""

    @property
    def text(self) -> str:
        """Cut at `why` when it is too long: who held the node before must be told again one day."""
        head, tail = f"Muster hold {self.value} by {self.by}", f"{_BEFORE}{_line(self.before)}" if self.before else ""
        why = _line(self.why).replace(_BEFORE, " ")[: max(0, LONGEST - len(head) - len(tail) - 2)]
        return f"{head}: {why}{tail}" if why else head + tail


def name_of(installation: str) -> str:
    """Its name as one word."""
    return re.sub(r"[^\w.-]+", "-", installation, flags=re.ASCII) or "-"


def read(reason: str) -> Mark | None:
    found = _MARK.fullmatch(_APPENDED.sub("", reason))
    return Mark(found["value"], found["by"], found["why"] or "", found["before"] or "") if found else None


def _line(text: str) -> str:
    """One line that no command line and no configuration file takes for more than one word."""
    return " ".join("".join(c if c.isprintable() and c not in "\"'\\" else " " for c in text).split())
