"""Which rule holds where: the site's, or that of a node's pool; and what a site says of single codes.

Decides by node, for edges, and by row, for arrays. Refuses to copy a rule per node: a site without overrides by pool
pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fleet.health.rules.codes import Codes
from fleet.health.rules.levels import Floats, Patience
from fleet.health.rules.types import NodeFacts, Rule

Nodes = NDArray[np.int32] | Callable[[], NDArray[np.int32]]  # of rows; fetched only where a pool has its own rule


@dataclass(slots=True)
class Pools:
    """`of` maps a pool to its own rules; a rule that a pool does not name is the site's."""

    of: Mapping[str, Mapping[str, Rule]] = field(default_factory=dict)
    codes: Codes = field(default_factory=Codes)
    by_name: Mapping[str, NodeFacts] = field(default_factory=dict)
    _place: NDArray[np.int32] = field(default_factory=lambda: np.zeros(0, dtype=np.int32))

    def look(self, nodes: Mapping[str, NodeFacts], index: Mapping[str, int], size: int) -> None:
        """Read the pools of all nodes, once a cycle."""
        self.by_name = nodes
        if not self.of:
            return
        numbers = {pool: number for number, pool in enumerate(self.of, 1)}
        self._place = np.zeros(size, dtype=np.int32)
        for name, facts in nodes.items():
            if facts.pool in numbers and name in index:
                self._place[index[name]] = numbers[facts.pool]

    def rule(self, base: Rule, node: str) -> Rule:
        if not self.of:
            return base
        facts = self.by_name.get(node)
        return self.rule_of(base, facts.pool) if facts else base

    def rule_of(self, base: Rule, pool: str) -> Rule:
        """The rule as that pool has it."""
        return self.of.get(pool, {}).get(base.id, base)

    def every(self, base: Rule, key: str) -> set[float]:
        """The values of one setting, wherever the rule holds."""
        return {float(getattr(rule, key)) for rule in (base, *(own.get(base.id, base) for own in self.of.values()))}

    def thresholds(self, base: Rule, nodes: Nodes) -> Floats | float:
        return self._by_row(base, "threshold", nodes)

    def windows(self, base: Rule, nodes: Nodes) -> Floats | float:
        return self._by_row(base, "window", nodes)

    def patience(self, base: Rule, nodes: Nodes) -> Patience:
        """How long the condition must hold on each of these rows."""
        keys = ("window", "scrapes", "of", "clear")
        return Patience(**{key: self._by_row(base, key, nodes) for key in keys})

    def _by_row(self, base: Rule, key: str, nodes: Nodes) -> Floats | float:
        own: float = getattr(base, key)
        if not any(base.id in rules for rules in self.of.values()):
            return own
        table = np.array([own, *(float(getattr(rules.get(base.id, base), key)) for rules in self.of.values())])
        chosen: Floats = table[self._place[nodes() if callable(nodes) else nodes]]
        return chosen
