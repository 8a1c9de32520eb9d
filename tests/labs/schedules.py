"""Many drawn schedules at once: `python -m tests.labs.schedules --core 100000 --postgres 2000 --effects 10000`.

Decides how they are shared among processes, each with a seed and a database of its own, and sums what they tell.
Refuses to call a run good of which a process failed; its log is named.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.labs.tally import read

GROUPS = {
    "core": ("MUSTER_CORE_SCHEDULES", "tests/unit/lifecycle/test_model.py"),
    "postgres": ("MUSTER_SCHEDULES", "tests/domain/lifecycle/test_schedules.py"),
    "effects": ("MUSTER_EFFECTS", "tests/domain/lifecycle/test_side_effects.py"),
}


def run(group: str, count: int, processes: int, seed: int, folder: Path) -> list[Path]:
    """The logs of the processes that failed."""
    name, path = GROUPS[group]
    each, children = -(-count // processes), []
    for number in range(processes):
        log = folder / f"{group}-{seed + number}.log"
        env = {**os.environ, name: str(each), "MUSTER_SEED": str(seed + number)}
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path, "--hypothesis-seed"]
        with log.open("wb") as out:
            child = subprocess.Popen([*argv, str(seed + number)], env=env, stdout=out, stderr=subprocess.STDOUT)
        children.append((log, child))
    return [log for log, child in children if child.wait()]


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    for group, count in (("core", 100_000), ("postgres", 2000), ("effects", 10_000)):
        ask.add_argument(f"--{group}", type=int, default=count)
    ask.add_argument("--processes", type=int, default=2)
    ask.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    options = ask.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="muster-schedules-"))
    os.environ["MUSTER_TALLY"] = str(folder / "tally.jsonl")
    failed: list[Path] = []
    for group in GROUPS:
        if count := getattr(options, group):
            failed += run(group, count, options.processes, options.seed, folder)
    print(json.dumps({"seed": options.seed, "violations": len(failed), **read(folder / "tally.jsonl")}))
    for log in failed:
        print(f"a violation: {log}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
