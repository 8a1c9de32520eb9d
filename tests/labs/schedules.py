"""Many drawn schedules at once: `python -m tests.labs.schedules --core 100000 --postgres 2000 --effects 10000`.

Decides how they are shared among processes, each with seeds and a database of its own, and sums what they tell: a line
each minute, and `summary.json` in the folder of the run at its end. With `--folder` of an earlier run it goes on where
that one stopped; `--seconds` ends it in time. After a violation another process goes on with the next seeds.
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
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.labs.tally import read

GROUPS = {
    "core": ("MUSTER_CORE_SCHEDULES", "tests/unit/lifecycle/test_model.py", "schedules"),
    "postgres": ("MUSTER_SCHEDULES", "tests/domain/lifecycle/test_schedules.py", "schedules"),
    "effects": ("MUSTER_EFFECTS", "tests/domain/lifecycle/test_side_effects.py", "runs"),
}
MOST_VIOLATIONS = 5
LOOK_SECONDS = 60.0


@dataclass(slots=True)
class Campaign:
    """One run in one folder. `until` is epoch seconds."""

    folder: Path
    seed: int
    processes: int
    until: float
    failed: list[Path] = field(default_factory=list)
    begun: float = field(default_factory=time.time)

    @property
    def tally(self) -> Path:
        return self.folder / "tally.jsonl"

    def done(self, group: str) -> int:
        return read(self.tally).get(group, {}).get(GROUPS[group][2], 0)

    def run(self, group: str, count: int, until: float) -> None:
        """Until `count` are done in all, also by earlier runs in the folder."""
        while (left := count - self.done(group)) > 0 and time.time() < until and len(self.failed) < MOST_VIOLATIONS:
            seed = max(self.seed, read(self.tally).get(group, {}).get("seed", -1) + 1)
            children = [self._begin(group, -(-left // self.processes), seed + n, until) for n in range(self.processes)]
            while any(child.poll() is None for _, child in children):
                self._wait([child for _, child in children])
                print(self.line(), flush=True)
            broken = [log for log, child in children if child.returncode]
            self.failed += broken
            if not broken:
                return

    def _begin(self, group: str, each: int, seed: int, until: float) -> tuple[Path, subprocess.Popen[bytes]]:
        name, path, _ = GROUPS[group]
        log = self.folder / f"{group}-{seed}.log"
        env = {
            **os.environ, name: str(each), "MUSTER_SEED": str(seed), "MUSTER_STRIDE": str(self.processes),
            "MUSTER_UNTIL": str(until), "MUSTER_TALLY": str(self.tally),
        }  # fmt: skip
        argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", path]
        with log.open("wb") as out:
            return log, subprocess.Popen(argv, env=env, stdout=out, stderr=subprocess.STDOUT)

    @staticmethod
    def _wait(children: list[subprocess.Popen[bytes]]) -> None:
        until = time.time() + LOOK_SECONDS
        while time.time() < until and any(child.poll() is None for child in children):
            time.sleep(0.5)

    def summary(self) -> dict[str, object]:
        return {
            "seed": self.seed, "seconds": round(time.time() - self.begun), "violations": len(self.failed),
            "logs": [str(log) for log in self.failed], **read(self.tally),
        }  # fmt: skip

    def line(self) -> str:
        sums = ", ".join(f"{kind} {counts[GROUPS[kind][2]]}" for kind, counts in read(self.tally).items())
        return f"{time.time() - self.begun:6.0f} s: {sums or 'nothing yet'}; violations {len(self.failed)}"


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    for group, count in (("core", 100_000), ("postgres", 2000), ("effects", 10_000)):
        ask.add_argument(f"--{group}", type=int, default=count)
    ask.add_argument("--processes", type=int, default=2)
    ask.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    ask.add_argument("--seconds", type=float, default=float("inf"))
    ask.add_argument("--folder", type=Path)
    options = ask.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="muster-schedules-"))
    folder.mkdir(parents=True, exist_ok=True)
    campaign = Campaign(folder, options.seed, options.processes, time.time() + options.seconds)
    groups = [group for group in GROUPS if getattr(options, group)]
    for place, group in enumerate(groups):
        share = (campaign.until - time.time()) / (len(groups) - place)
        campaign.run(group, getattr(options, group), time.time() + share)
    text = json.dumps(campaign.summary())
    (folder / "summary.json").write_text(text + "\n", encoding="utf-8")
    print(text)
    for log in campaign.failed:
        print(f"a violation: {log}")
    return 1 if campaign.failed else 0


if __name__ == "__main__":
    sys.exit(main())
