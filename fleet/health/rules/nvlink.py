"""What the words of an NVLink 5 fault mean (Xid 144 to 150).

Decides by the unit, the interrupt word and the error status of the line, in the table `nvlink5.csv`; the meaning of the
interrupt word's bits changed with driver R575, and the line does not say its driver, so the newer pattern is tried
first. Refuses to guess: a combination that the table does not have is left to the line's own Fatal or Nonfatal.
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
_WORST = {"reset_gpu": 2, "restart_app": 1, "ignore": 0}


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
            return Told(unit, found["link"] or "", row.action, row.severity)
    return None


def _fits(pattern: str, word: int) -> bool:
    bits = f"{word:032b}"[-len(pattern) :] if pattern else ""
    return bool(pattern) and all(want in ("-", bit) for want, bit in zip(pattern, bits, strict=True))
