"""How many schedules are run, with which seeds and until when, and how many were, across processes.

Decides rounds, each with a seed of its own, so that a run can be cut short at any moment and go on later; and one line
of JSON per schedule in the file that MUSTER_TALLY names, nothing where it names none.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_seed = 0


def rounds(name: str, default: int, each: int) -> Iterator[tuple[int, int]]:
    """(seed, how many) until as many were given out as the variable `name` says, or the time of MUSTER_UNTIL has come.

    Seeds are MUSTER_SEED and every MUSTER_STRIDE-th after it, so that processes do not share any.
    """
    global _seed
    left = int(os.environ.get(name, default))
    seed = int(os.environ.get("MUSTER_SEED") or random.SystemRandom().randrange(1_000_000))
    until = float(os.environ.get("MUSTER_UNTIL", "inf"))
    while left > 0 and time.time() < until:
        _seed = seed
        yield seed, min(each, left)
        left, seed = left - each, seed + int(os.environ.get("MUSTER_STRIDE", "1"))


def told(kind: str, **counts: int) -> None:
    """One schedule of `kind` ended without a violation."""
    where = os.environ.get("MUSTER_TALLY")
    if where:
        with Path(where).open("a", encoding="utf-8") as out:
            out.write(json.dumps({"kind": kind, "seed": _seed, "schedules": 1, **counts}) + "\n")


def read(where: Path) -> dict[str, dict[str, int]]:
    """Sums by kind; `seed` is the highest that was used."""
    sums: dict[str, Counter[str]] = {}
    seeds: dict[str, int] = {}
    for line in where.read_text(encoding="utf-8").splitlines() if where.exists() else []:
        row = json.loads(line)
        kind, seed = row.pop("kind"), row.pop("seed")
        seeds[kind] = max(seed, seeds.get(kind, 0))
        sums.setdefault(kind, Counter()).update(row)
    return {kind: {**counts, "seed": seeds[kind]} for kind, counts in sorted(sums.items())}
