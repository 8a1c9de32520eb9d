"""Is a node that Kubernetes has not heard of gone altogether, or only unheard?

Decides from two more views than the API server's: none of its exporters answers any more, though they did, and at
least half of its pool's other nodes are heard, so that it is neither the network nor us. Refuses a node that never
had an exporter, and a pool without other nodes: one view alone is no proof. Its BMC is asked before it is fenced.
"""

from __future__ import annotations

import numpy as np

from fleet.health.rules.types import ClusterView

MISSED = 3
"""Intervals without an answer; the same patience as for a node that becomes unknown."""
LEAST_PEERS = 2


class Lostness:
    """One look at a cycle's view."""

    def __init__(self, view: ClusterView) -> None:
        t, size = view.frame.t, view.frame.t.size
        alive, node = t.alive[:size], t.node[:size]
        fresh = alive & (view.monotonic - t.mono[:size] <= MISSED * t.interval[:size])
        spoke = alive & np.isfinite(t.mono[:size])
        names = view.frame.nodes
        self._view = view
        self._fresh = {names[index] for index in np.unique(node[fresh]).tolist()}
        self._spoke = {names[index] for index in np.unique(node[spoke]).tolist()}

    def says(self, name: str) -> bool:
        """True only when every view agrees that the host is gone."""
        facts = self._view.nodes[name]
        if facts.ready is not None or name in self._fresh or name not in self._spoke:
            return False
        peers = [other for other, seen in self._view.nodes.items() if seen.pool == facts.pool and other != name]
        return len(peers) >= LEAST_PEERS and 2 * sum(peer in self._fresh for peer in peers) >= len(peers)
