"""Which nodes of Slurm are a host that Kubernetes calls otherwise, where no inventory says so.

Decides by what both tell of the host: its name in another case or with its domain, its host name, its address. Refuses
to call a host nobody's because two systems spell it in two ways, and to choose between several that may be meant. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from fleet.ports.cluster import NodeSeen


def called(node: NodeSeen, listed: Sequence[NodeSeen]) -> list[str]:
    """The names of those of `listed` that may be the host; [] where it is none of Slurm's."""
    told = _told(node)
    alike = [one.name for one in listed if told & _told(one)]
    return alike or [one.name for one in listed if _short(told) & _short(_told(one))]


def _told(node: NodeSeen) -> frozenset[str]:
    names = (node.name, *(address for _, address in node.addresses))
    return frozenset(name.lower().rstrip(".") for name in names if name)


def _short(names: frozenset[str]) -> frozenset[str]:
    """Without the domain. An address has none."""
    return frozenset(name.partition(".")[0] for name in names if not name[:1].isdigit() and ":" not in name)
