"""Every exporter that is known, in the form of Prometheus' HTTP service discovery.

Decides the labels a target carries: node, job and cluster, which are how a pushed sample finds its node again, and the
scopes the node belongs to as `__meta_muster_` labels, for whoever wants to relabel by them. The full list each time; an
empty one is a list too. Refuses nothing: what is scraped here, queried elsewhere or not at all is listed alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fleet.inventory.topology import placement
from fleet.observer.session import Session
from fleet.observer.world import Exporter, World


@dataclass(slots=True)
class Discovery:
    session: Session
    world: World
    exporters: Callable[[], Mapping[tuple[str, str], Exporter]]

    def targets(self) -> list[dict[str, Any]]:
        """May be called from any thread."""
        keys = self.session.cluster.label_keys
        nodes, scopes = dict(self.world.nodes), dict[str, dict[str, str]]()
        listed: list[dict[str, Any]] = []
        for (node, job), exporter in self.exporters().items():
            seen = nodes.get(node)
            if node not in scopes and seen is not None:
                places = {scope: text for scope, text in asdict(placement(seen.labels, keys)).items() if text}
                scopes[node] = {f"__meta_muster_{scope}": text for scope, text in places.items()}
            scheme, _, rest = exporter.url.partition("://")
            address, slash, path = rest.partition("/")
            labels = {"__scheme__": scheme, "__metrics_path__": slash + path, "node": node, "job": job}
            labels |= {"cluster": self.session.name, **scopes.get(node, {})}
            listed.append({"targets": [address], "labels": labels})
        return listed
