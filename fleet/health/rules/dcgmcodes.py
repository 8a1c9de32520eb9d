"""What a code of DCGM's health checks (DCGM_FR_...) means and which kind of action it asks for.

Decides from the table in `fleet/health/tables/dcgm.csv`: the name of the cause, the rule of ours that sees the same
fault, the action and the severity of a failure. A warning is never worse than degraded and only watched. Refuses to act
on a code that the table does not have: it asks for support.
"""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path
from typing import cast

from fleet.health.rules.types import ActionClass, Meaning, Severity

TABLE = Path(__file__).resolve().parents[1] / "tables" / "dcgm.csv"
FINE = frozenset({"", "DCGM_FR_OK"})
_PREFIX = "DCGM_FR_"


@cache
def _table() -> dict[str, dict[str, str]]:
    with TABLE.open(newline="", encoding="utf-8") as file:
        return {row["code"]: row for row in csv.DictReader(file)}


def known() -> tuple[str, ...]:
    return tuple(_table())


def meaning(code: str) -> Meaning:
    """The table's word on a failure with that code."""
    row = _table().get(code)
    if row is None:
        return Meaning(0, "code without public meaning", "contact_support", "unhealthy", "no published source")
    severity = None if row["severity"] == "none" else cast(Severity, row["severity"])
    action = cast(ActionClass, "ignore" if severity is None else row["action"])
    return Meaning(int(row["number"] or 0), row["name"], action, severity, row["source"])


def cause(code: str, check: str, warning: bool = False) -> str:
    """The name of the finding, by the code or, where the exporter tells none, by the check."""
    name = code.removeprefix(_PREFIX) if code not in FINE else check
    return f"dcgm-{name.lower().replace('_', '-')[:50]}" + ("-warning" if warning else "")


@cache
def explained_by() -> dict[str, tuple[str, ...]]:
    """Causes of ours that are the same fault as a code's, by the code's cause."""
    same = {code: tuple(row["same_as"].split()) for code, row in _table().items() if row["same_as"]}
    return {cause(code, "", warning): others for code, others in same.items() for warning in (False, True)}
