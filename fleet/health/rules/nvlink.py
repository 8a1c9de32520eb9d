"""What the words of an NVLink fault mean: Xid 74 of NVLink 1 to 4, Xid 144 to 150 of NVLink 5.

Decides for 74 by the bits of its seven registers, in the table `xid74.csv`; for the others by the unit, the interrupt
word and the error status of the line, in `nvlink5.csv` (the meaning of the interrupt word's bits changed with driver
R575, and the line does not say its driver, so the newer pattern is tried first). Tells, where the words do, at which
end the fault began: at this GPU (`local`), on the link or its connection (`link`), or beyond it (`remote`). Refuses to
guess: a combination that the tables do not have is left to the line's own Fatal or Nonfatal.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).resolve().parents[1] / "tables" / "nvlink5.csv"
_LINE = re.compile(
    r"(?P<unit>[A-Z][A-Z0-9_/]+)(?: Degraded)?\s+(?:Non-?fatal|Fatal)\b.*?"
    r"(?:Link\s+(?P<link>-?\d+))?\s*\((?P<words>0x[0-9a-fA-F]+(?:\s+0x[0-9a-fA-F]+)*)\)",
    re.IGNORECASE,
)
_NVLINK4 = re.compile(r"link\s*(?P<link>\d+)\s*\((?P<words>0x[0-9a-fA-F]+(?:,\s*0x[0-9a-fA-F]+){6})\)")
TABLE_74 = TABLE.with_name("xid74.csv")
_WORST = {"inspect": 4, "contact_support": 3, "reset_gpu": 2, "restart_app": 1, "monitor": 1, "ignore": 0}
_ENDS = {"local": "at this GPU", "link": "on the link or its connection", "remote": "beyond the link"}
_LINK_UNITS = ("NETIR_LINK_EVT", "NETIR_LINK_DOWN", "NETIR_BER_EVENT")  # what both ends of a link take part in


@dataclass(frozen=True, slots=True)
class Row:
    code: int
    units: frozenset[str]
    patterns: tuple[str, str]  # since R575, before
    statuses: tuple[int, ...]  # empty: any
    action: str
    severity: str


@dataclass(frozen=True, slots=True)
class Told:
    unit: str
    link: str
    action: str
    severity: str
    end: str = ""

    @property
    def said(self) -> str:
        """For people: the unit or the kind of error, the link, the end."""
        link = f" of link {int(self.link)}" if self.link and int(self.link) >= 0 else ""
        return f"{self.unit}{link}" + (f" ({_ENDS[self.end]})" if self.end else "")


@dataclass(frozen=True, slots=True)
class Register:
    """Bits of one of the seven registers of Xid 74 that mean the same."""

    number: int
    mask: int
    name: str
    end: str
    action: str
    severity: str


@cache
def _registers() -> tuple[Register, ...]:
    with TABLE_74.open(newline="", encoding="utf-8") as file:
        return tuple(
            Register(
                int(row["register"]), sum(1 << int(bit) for bit in row["bits"].split()), row["name"], row["end"],
                row["action"], row["severity"],
            )
            for row in csv.DictReader(file)
        )  # fmt: skip


@cache
def _rows() -> tuple[Row, ...]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return tuple(
            Row(
                int(row["code"]),
                frozenset(row["unit"].replace(" Degraded", "").upper().split("/")),
                (row["since_r575"], row["before_r575"]),
                tuple(int(status, 16) for status in row["status"].split("|") if status),
                row["action"],
                row["severity"],
            )
            for row in csv.DictReader(file)
        )


def decode(code: int, detail: str) -> Told | None:
    """What the line means by the table, None when the table does not know."""
    if code == 74:
        return _nvlink4(detail)
    found = _LINE.search(detail)
    if found is None:
        return None
    unit = found["unit"].upper()
    words = [int(word, 16) for word in found["words"].split()]
    info, status = words[0], words[1] if len(words) > 1 else 0
    here = [row for row in _rows() if row.code == code and row.units & set(unit.split("/"))]
    for generation in (0, 1):
        fits = [row for row in here if _fits(row.patterns[generation], info)]
        rows = [row for row in fits if status in row.statuses] or [row for row in fits if not row.statuses]
        if not rows:
            rows = [row for row in fits if any(one & status and one & (one - 1) == 0 for one in row.statuses)]
        if rows:
            row = max(rows, key=lambda one: _WORST[one.action])
            end = "link" if unit.startswith(_LINK_UNITS) else "local"
            return Told(unit, found["link"] or "", row.action, row.severity, end)
    return None


def _nvlink4(detail: str) -> Told | None:
    """The worst of what the registers say; what only follows another fault counts when nothing else is said."""
    found = _NVLINK4.search(detail)
    if found is None:
        return None
    words = [int(word, 16) for word in re.findall(r"0x[0-9a-fA-F]+", found["words"])]
    set_here = [row for row in _registers() if words[row.number] & row.mask]
    if not set_here:
        return None
    row = max(set_here, key=lambda one: (one.severity != "none", one.end != "remote", _WORST[one.action]))
    return Told(row.name, found["link"], row.action, row.severity, row.end if row.end in _ENDS else "")


def _fits(pattern: str, word: int) -> bool:
    bits = f"{word:032b}"[-len(pattern) :] if pattern else ""
    return bool(pattern) and all(want in ("-", bit) for want, bit in zip(pattern, bits, strict=True))
