"""What an Xid code means and which kind of action it asks for.

Decides from the table in `fleet/health/tables/xid.csv`, except where the line itself knows better: 154 carries the
driver's own request, and the NVLink 5 codes say whether they were fatal. Refuses to act on a code nobody documents:
it is degraded and asks for support.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import cast

from fleet.health.rules import nvlink
from fleet.health.rules.types import ActionClass, Meaning, Severity

TABLE = Path(__file__).resolve().parents[1] / "tables" / "xid.csv"
AFTER_EFFECTS = frozenset({43, 45})
ASKED_LATER = frozenset(
    {46, 48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 136, 140, 143, *range(144, 151), 155, 156, 158}
)
"""Fatal codes after which a driver from R565 on says in a 154 what it needs."""
RECOVERY = 154
# What the driver may ask for in an Xid 154, most specific wording first.
_REQUESTS: tuple[tuple[str, ActionClass], ...] = (
    ("node reboot", "reboot_node"),
    ("drain and reset", "reset_gpu"),
    ("gpu reset", "reset_gpu"),
    ("drain p2p", "monitor"),
    ("none", "ignore"),
)


@cache
def _table() -> dict[int, tuple[str, str, str, str]]:
    table: dict[int, tuple[str, str, str, str]] = {}
    with TABLE.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            first, _, last = row["code"].partition("-")
            for code in range(int(first), int(last or first) + 1):
                table[code] = (row["name"], row["action"], row["severity"], row["source"])
    return table


def meaning(code: int, detail: str = "", fatal: bool | None = None) -> Meaning:
    """The table's word on a code, corrected by what its line says."""
    name, action, severity, source = _table().get(
        code, ("code without public meaning", "contact_support", "degraded", "no published source")
    )
    if action == "follow_text":
        action, severity = _requested(detail)
    elif action == "decode":
        told = nvlink.decode(code, detail)
        if told is not None:
            if told.severity == "none":
                return Meaning(code, name, "ignore", None, source)
            words = f"{name}, {told.said}"
            action, severity = cast(ActionClass, told.action), cast(Severity, told.severity)
            return Meaning(code, words, action, severity, source, told.link, told.end)
        action, severity = ("monitor", "degraded") if fatal is False else ("reset_gpu", "unhealthy")
    if action == "ignore" or severity == "none":
        return Meaning(code, name, "ignore", None, source)
    return Meaning(code, name, cast(ActionClass, action), cast(Severity, severity), source)


def _requested(detail: str) -> tuple[str, str]:
    said = detail.lower().rpartition(" to ")[2]  # "changed from A to B": what was asked before is over
    for words, action in _REQUESTS:
        if words in said:
            return action, "none" if action == "ignore" else "degraded" if action == "monitor" else "unhealthy"
    return "inspect", "degraded"  # DCGM repeats the code without the text
