"""What outsiders did to the fleet, counted, and how many nodes were out at once.

It decides nothing; it counts. It refuses to count what the simulator does to itself.
"""

from collections import Counter, defaultdict
from typing import Any


class Stats:
    """Counted since the start."""

    def __init__(self) -> None:
        self.writes: Counter[str] = Counter()
        self.evictions: Counter[str] = Counter()  # accepted: its end began with it; repeated: it had begun; refused
        self.bmc: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.bmc_concurrent_max = 0
        self.boots: Counter[str] = Counter()
        self.gpu_resets: Counter[str] = Counter()
        self.provisions: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._out: set[str] = set()
        self._out_now: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.out_max: defaultdict[str, dict[str, int]] = defaultdict(dict)

    def wrote(self, verb: str, resource: str) -> None:
        self.writes[f"{verb} {resource}"] += 1

    def bmc_call_began(self, node: str) -> None:
        self._calls[node] += 1
        self.bmc_concurrent_max = max(self.bmc_concurrent_max, self._calls[node])

    def bmc_call_ended(self, node: str) -> None:
        self._calls[node] -= 1

    def went_out(self, node: str, scopes: dict[str, str]) -> None:
        """A node began to reboot or was switched off; saying it twice counts once."""
        if node in self._out:
            return
        self._out.add(node)
        for scope, value in scopes.items():
            self._out_now[scope][value] += 1
            self.out_max[scope][value] = max(self.out_max[scope].get(value, 0), self._out_now[scope][value])

    def came_back(self, node: str, scopes: dict[str, str]) -> None:
        if node not in self._out:
            return
        self._out.remove(node)
        for scope, value in scopes.items():
            self._out_now[scope][value] -= 1

    def document(self) -> dict[str, Any]:
        return {
            "writes": dict(self.writes),
            "evictions": dict(self.evictions),
            "bmc": {node: dict(calls) for node, calls in self.bmc.items()},
            "bmc_concurrent_max": self.bmc_concurrent_max,
            "boots": dict(self.boots),
            "gpu_resets": dict(self.gpu_resets),
            "provisions": dict(self.provisions),
            "out_max": {scope: dict(values) for scope, values in self.out_max.items()},
        }
