"""ClusterReader of a Kubernetes cluster beside which a Slurm stands.

Decides that a host which Slurm may still give work to is somebody else's until Slurm is drained there: a cordon in
Kubernetes keeps no job of Slurm away. A host whose slurmd is a pod (Slinky) is drained in Slurm by that pod's operator
and told by the pod. Refuses to take a Slurm that does not answer for one without jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from fleet.adapters.slurm import Connection
from fleet.adapters.slurm.looking import BUSY, SlurmReader
from fleet.ports.cluster import Change, ClusterReader, EventSeen, NodeSeen, PodSeen, RequestSeen, WatchState
from fleet.ports.errors import NotFound

GROUP = "slurm"
EXTERNAL = "EXTERNAL"
"""A node without a slurmd: what Slurm places there comes as pods, which Kubernetes knows."""


class BesideReader:
    """`names`: Slurm's name of a node -> the cluster's, where they differ."""

    def __init__(self, inner: ClusterReader, connection: Connection, names: Callable[[], Mapping[str, str]]) -> None:
        self._inner, self._slurm, self._names = inner, SlurmReader(connection), names

    def requests_on(self, node: str) -> list[RequestSeen]:
        """Beside those of Kubernetes, Slurm's own claim to the host as long as it gives it work or works there."""
        found = self._inner.requests_on(node)
        called = next((theirs for theirs, ours in self._names().items() if ours == node), node)
        try:
            seen = self._slurm.counted(called)
        except NotFound:
            return found
        states = set(seen.ready_reason.split("+"))
        if EXTERNAL in states:
            return found
        if (seen.unschedulable and not states & BUSY) or any(pod.slurm for pod in self._inner.pods_on(node)):
            return found
        return [*found, RequestSeen(GROUP, "node", called, seen.ready_reason, False, None)]

    def check(self) -> list[str]:
        return self._inner.check()

    def server_version(self) -> str:
        return self._inner.server_version()

    def nodes(self) -> list[NodeSeen]:
        return self._inner.nodes()

    def node(self, name: str) -> NodeSeen:
        return self._inner.node(name)

    def pods_on(self, node: str) -> list[PodSeen]:
        return self._inner.pods_on(node)

    def unscheduled_pods(self) -> list[PodSeen]:
        return self._inner.unscheduled_pods()

    def events_of(self, kind: str, name: str, namespace: str = "") -> list[EventSeen]:
        return self._inner.events_of(kind, name, namespace)

    def watch_nodes(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return self._inner.watch_nodes(stop, on_state)

    def watch_pods(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return self._inner.watch_pods(stop, on_state)
