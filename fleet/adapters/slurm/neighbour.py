"""ClusterReader of a Kubernetes cluster beside which a Slurm stands.

Decides that a host which Slurm may still give work to is somebody else's until Slurm is drained there: a cordon in
Kubernetes keeps no job of Slurm away. A host whose slurmd is a pod (Slinky) is drained in Slurm by that pod's operator
and told by the pod. Refuses to take a Slurm that does not answer for one without jobs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from fleet.adapters.slurm import Connection, naming
from fleet.adapters.slurm.looking import BUSY, SlurmReader
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import Change, ClusterReader, EventSeen, NodeSeen, PodSeen, RequestSeen, WatchState
from fleet.ports.errors import NotFound

GROUP = "slurm"
LISTED_SECONDS = 60.0
"""So long it is believed which nodes Slurm has, for hosts that it calls otherwise. What each does is asked anew."""
EXTERNAL = "EXTERNAL"
"""A node without a slurmd: what Slurm places there comes as pods, which Kubernetes knows."""


class BesideReader:
    """`names`: Slurm's name of a node -> the cluster's, where they differ."""

    def __init__(
        self,
        inner: ClusterReader,
        connection: Connection,
        names: Callable[[], Mapping[str, str]],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._inner, self._slurm, self._names = inner, SlurmReader(connection), names
        self._clock, self._listed, self._listed_at = clock, list[NodeSeen](), float("-inf")

    def requests_on(self, node: str) -> list[RequestSeen]:
        """Beside those of Kubernetes, Slurm's own claim to the host as long as it gives it work or works there."""
        found = self._inner.requests_on(node)
        claims = [claim for seen in self._of(node) if (claim := _claim(seen)) is not None]
        if not claims or any(pod.slurm for pod in self._inner.pods_on(node)):
            return found
        return [*found, *claims]

    def _of(self, node: str) -> list[NodeSeen]:
        """The host as Slurm sees it now; by another name only where it knows none of this one."""
        named, found = self._names(), list[NodeSeen]()
        own = [theirs for theirs, ours in named.items() if ours == node]
        for name in own or [node]:
            with suppress(NotFound):
                found.append(self._slurm.counted(name))
        if found:
            return found
        free = [one for one in self._all() if one.name not in named]
        return [self._slurm.counted(name) for name in naming.called(self._inner.node(node), free)]

    def _all(self) -> list[NodeSeen]:
        now = self._clock.monotonic()
        if now - self._listed_at >= LISTED_SECONDS:
            self._listed, self._listed_at = self._slurm.nodes(), now
        return self._listed

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


def _claim(seen: NodeSeen) -> RequestSeen | None:
    """None where it gives the host no work and has none there, or where its work comes as pods."""
    states = set(seen.ready_reason.split("+"))
    if EXTERNAL in states or (seen.unschedulable and not states & BUSY):
        return None
    return RequestSeen(GROUP, "node", seen.name, seen.ready_reason, False, None)
