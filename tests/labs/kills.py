"""Kill one process after another while nodes heal: nothing may be lost and nothing done twice.

Decides whom to kill and when, from a seed: a fresh fault every few seconds on a node of its own, a kill every eight to
ten. Refuses to be kind: `kill -9`, at any moment. Run by hand: `python -m tests.labs.kills --kills 50`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import redis

from tests.labs.live import PROCESSES, Live, until

HOLD = "muster.dev/hold"
RESETS = ("ForceRestart", "PowerCycle", "GracefulRestart")
AGAIN_WITHIN, HEALED_WITHIN = 15.0, 600.0


@dataclass(slots=True)
class Campaign:
    """One run: what was broken, who was killed, what came of it."""

    live: Live
    kills: int
    rng: random.Random
    fault_every: float
    kill_every: tuple[float, float] = (8.0, 10.0)
    victims: tuple[str, ...] = PROCESSES
    say: Callable[[str], None] = print
    boots: dict[str, str] = field(default_factory=dict)  # node -> boot id before its fault
    again: list[tuple[str, float | None]] = field(default_factory=list)
    works: list[tuple[str, float | None]] = field(default_factory=list)
    healed_after: float | None = None

    def run(self) -> None:
        victims = self._victims()
        spare = self._spread()
        next_fault = next_kill = time.monotonic() + 2
        while len(self.again) < self.kills:
            now = time.monotonic()
            if now >= next_fault:
                self._break(next(spare))
                next_fault = now + self.fault_every * self.rng.uniform(0.7, 1.3)
            if now >= next_kill:
                self._kill(next(victims))
                next_kill = time.monotonic() + self.rng.uniform(*self.kill_every)
            time.sleep(0.05)
        self.healed_after = until(lambda: not self.unhealed(), HEALED_WITHIN, 1.0)

    def _victims(self) -> Iterator[str]:
        while True:
            yield from self.rng.sample(self.victims, len(self.victims))

    def _spread(self) -> Iterator[str]:
        """Nodes, each once, every time of another rack."""
        racks = [self.rng.sample(rack, len(rack)) for rack in self.live.racks().values()]
        return (name for row in itertools.zip_longest(*racks) for name in row if name)

    def _break(self, node: str) -> None:
        self.boots[node] = self.live.boot_id(node)
        self.live.inject("xid79", node, self.rng.randrange(8))

    def _kill(self, victim: str) -> None:
        began = time.monotonic()
        again = self.live.back(victim, self.live.kill(victim))
        self.again.append((victim, again))
        spent = time.monotonic() - began
        working = until(lambda: self._works(victim), max(0.0, 30 - spent), 0.1)
        self.works.append((victim, None if working is None else spent + working))
        self.say(f"kill {len(self.again)}: {victim}, again after {_s(again)}, works after {_s(self.works[-1][1])}")

    def _works(self, victim: str) -> bool:
        """Does it do again what it is there for, as far as a stranger can tell at once?"""
        run = self.live.var / "run"
        if victim == "postgres":
            return bool(self.live.rows("select 1 as one"))
        if victim == "valkey":
            link = redis.Redis.from_url((run / "redis.url").read_text().strip(), socket_timeout=1)
            try:
                return bool(link.ping())
            except redis.RedisError:
                return False
            finally:
                link.close()
        if victim == "observer-demo":
            ready = run / "observer-demo.ready"
            return ready.read_text().strip() == str(self.live.pid(victim))
        if victim == "web":
            with urllib.request.urlopen(f"http://127.0.0.1:{self.live.port}/healthz", timeout=2) as answer:
                return bool(answer.status == 200)
        return True

    def unhealed(self) -> list[str]:
        return [node for node, boot in self.boots.items() if not self.live.healed(node, boot)]

    def findings(self) -> dict[str, Any]:
        """Everything that would be wrong; empty values are good."""
        live, stats = self.live, self.live.stats()
        nodes = {node["metadata"]["name"]: node for node in live.nodes()}
        resets = {node: sum(done.get(verb, 0) for verb in RESETS) for node, done in stats["bmc"].items()}
        return {
            "unhealed": self.unhealed(),
            "boots": {node: stats["boots"].get(node, 0) for node in self.boots if stats["boots"].get(node, 0) != 1},
            "resets": {node: resets.get(node, 0) for node in self.boots if resets.get(node, 0) != 1},
            "others": sorted(set(stats["boots"]) - set(self.boots)),
            "bmc_concurrent": max(0, stats["bmc_concurrent_max"] - 1),
            "holds": [name for name, node in nodes.items() if HOLD in node["metadata"].get("annotations", {})],
            "cordons": [name for name, node in nodes.items() if node["spec"].get("unschedulable")],
            "late": [(who, took) for who, took in self.again if took is None or took > AGAIN_WITHIN],
            "dumb": [(who, took) for who, took in self.works if took is None or took > AGAIN_WITHIN],
            "open": [row["id"] for row in live.open_workflows()],
            "not_succeeded": live.rows(
                "select id, state, outcome from lifecycle_workflow where state <> 'succeeded' order by id"
            ),
            "open_incidents": live.rows("select id, title from health_incident where state = 'open'"),
            "over_cap": {rack: n for rack, n in stats["out_max"].get("rack", {}).items() if n > 2},
            "audit": live.manage("audit", "verify").returncode,
        }

    def summary(self) -> dict[str, Any]:
        longest: dict[str, float] = {}
        for who, took in self.works:
            longest[who] = max(longest.get(who, 0.0), 999.0 if took is None else round(took, 1))
        return {
            "kills": dict(Counter(who for who, _ in self.again)),
            "faults": len(self.boots),
            "longest_until_works_s": longest,
            "all_healed_after_last_kill_s": self.healed_after and round(self.healed_after, 1),
        }


def _s(took: float | None) -> str:
    return "never" if took is None else f"{took:.1f} s"


def main() -> int:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--kills", type=int, default=50)
    ask.add_argument("--nodes", type=int, default=256)
    ask.add_argument("--speed", type=float, default=2.0)
    ask.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10_000))
    ask.add_argument("--fault-every", type=float, default=4.0)
    ask.add_argument("--kill-every", type=float, nargs=2, default=(8.0, 10.0), metavar=("LEAST", "MOST"))
    ask.add_argument("--victims", nargs="+", choices=PROCESSES, default=PROCESSES)
    options = ask.parse_args()
    print(f"seed {options.seed}")
    with Live(nodes=options.nodes, speed=options.speed) as live:
        rng, pace = random.Random(options.seed), tuple(options.kill_every)
        campaign = Campaign(live, options.kills, rng, options.fault_every, pace, tuple(options.victims))
        campaign.run()
        wrong = {what: found for what, found in campaign.findings().items() if found}
        print(json.dumps(campaign.summary()))
        print("wrong:", json.dumps(wrong, default=str, indent=1) if wrong else "nothing")
        if wrong:
            raise SystemExit(1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
