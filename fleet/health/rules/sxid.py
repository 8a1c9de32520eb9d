"""What an SXid of an NVSwitch means and which kind of action it asks for.

Decides from the table in `fleet/health/tables/sxid.csv`; where the line itself says Fatal or Non-fatal, that outranks
the table. Refuses to act on what is not fatal: it is counted, and watched if the table thinks worse of it.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import cast

from fleet.health.rules.types import ActionClass, Meaning, Severity

TABLE = Path(__file__).resolve().parents[1] / "tables" / "sxid.csv"


@cache
def _table() -> dict[int, tuple[str, str, str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {
            int(row["code"]): (row["name"], row["action"], row["severity"], row["source"])
            for row in csv.DictReader(file)
        }


def meaning(code: int, fatal: bool | None) -> Meaning:
    """The table's word on a code, corrected by the severity in its line."""
    name, action, severity, source = _table().get(
        code, ("code without public meaning", "contact_support", "unhealthy", "no published source")
    )
    if fatal is False and severity != "none":
        action, severity = "monitor", "degraded"
    elif fatal and severity in ("none", "degraded"):
        action, severity = "contact_support" if action == "ignore" else action, "unhealthy"
    if severity == "none":
        return Meaning(code, name, "ignore", None, source)
    return Meaning(code, name, cast(ActionClass, action), cast(Severity, severity), source)
