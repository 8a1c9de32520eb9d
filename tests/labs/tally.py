"""How many schedules were run, across processes.

Decides one line of JSON per schedule in the file that MUSTER_TALLY names; nothing where it names none.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path


def told(kind: str, **counts: int) -> None:
    """One schedule of `kind` ended without a violation."""
    where = os.environ.get("MUSTER_TALLY")
    if where:
        with Path(where).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"kind": kind, "schedules": 1, **counts}) + "\n")


def read(where: Path) -> dict[str, dict[str, int]]:
    """Sums by kind."""
    sums: dict[str, Counter[str]] = {}
    for line in where.read_text(encoding="utf-8").splitlines() if where.exists() else []:
        row = json.loads(line)
        sums.setdefault(row.pop("kind"), Counter()).update(row)
    return {kind: dict(counts) for kind, counts in sorted(sums.items())}
