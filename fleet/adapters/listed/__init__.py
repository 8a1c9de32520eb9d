"""Nodes of a cluster without a scheduler, as a list names them.

Decides how a list becomes the streams that an API server would give: everything once, then what changed whenever the
list did. Nobody tells of such a node whether it takes work, so it counts as ready for as long as it is listed, and its
exporters alone say how it is. Refuses to act: there is nothing here that a hold or an eviction could be told to.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from uuid import NAMESPACE_DNS, uuid5

from fleet.ports.clock import SYSTEM_CLOCK
from fleet.ports.cluster import Change, ClusterReader, EventSeen, NodeSeen, PodSeen, RequestSeen, WatchState
from fleet.ports.errors import NotFound, PermanentError, PortError

LOOK_EVERY = 2.0
PAUSE = 0.1


@dataclass(frozen=True, slots=True)
class Entry:
    """One node of the list."""

    name: str
    labels: Mapping[str, str]
    addresses: tuple[str, ...] = ()


Listing = Callable[[], "list[Entry] | None"]
"""What changed: the whole list, or None while it is what it was. PortError when it cannot be read."""


def reader(view: Callable[[], Listing]) -> ClusterReader:
    """A ClusterReader. `view` opens the list anew for each stream, so that each begins with everything."""
    return ListedReader(view)


class ListedReader:
    def __init__(self, view: Callable[[], Listing]) -> None:
        self._view = view

    def check(self) -> list[str]:
        self.nodes()
        return []

    def server_version(self) -> str:
        return "listed"

    def nodes(self) -> list[NodeSeen]:
        return [_seen(entry) for entry in self._view()() or []]

    def node(self, name: str) -> NodeSeen:
        found = next((seen for seen in self.nodes() if seen.name == name), None)
        if found is None:
            raise NotFound(f"{name} is not in the list of targets.")
        return found

    def unscheduled_pods(self) -> list[PodSeen]:
        raise PermanentError("No scheduler tells what waits.", code="no_scheduler")

    def pods_on(self, node: str) -> list[PodSeen]:
        """What runs there is not known, and unknown must not look like nothing."""
        raise PermanentError(f"No scheduler tells what runs on {node}.", code="no_scheduler")

    def requests_on(self, node: str) -> list[RequestSeen]:
        return []

    def events_of(self, kind: str, name: str, namespace: str = "") -> list[EventSeen]:
        return []

    def watch_nodes(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        """The list, and again whenever it changed. One that cannot be read leaves the nodes as they are."""
        changed, known = self._view(), dict[str, Entry]()
        while not stop():
            try:
                found = changed()
            except PortError as error:
                found = None
                on_state(WatchState("nodes", False, SYSTEM_CLOCK.now(), str(error), error.code))
            if found is not None:
                on_state(WatchState("nodes", True, SYSTEM_CLOCK.now()))
                before, known = known, {entry.name: entry for entry in found}
                for entry in known.values():
                    if before.get(entry.name) != entry:
                        yield Change("modified" if entry.name in before else "added", _seen(entry))
                yield Change("synced", names=frozenset(known), relist=bool(before))
            _wait(stop)

    def watch_pods(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        """None is ever told."""
        on_state(WatchState("pods", True, SYSTEM_CLOCK.now()))
        yield Change("synced")
        while not stop():
            _wait(stop)


def _wait(stop: Callable[[], bool]) -> None:
    end = time.monotonic() + LOOK_EVERY
    while not stop() and time.monotonic() < end:
        time.sleep(PAUSE)


def _seen(entry: Entry) -> NodeSeen:
    return NodeSeen(
        name=entry.name, uid=str(uuid5(NAMESPACE_DNS, entry.name)), resource_version="", unschedulable=False,
        ready=True, ready_reason="Listed", ready_since=None, heartbeat_at=None, boot_id="", machine_id="",
        system_uuid="", provider_id="", kernel="", os_image="", kubelet="",
        addresses=tuple(("InternalIP", address) for address in entry.addresses), labels=dict(entry.labels),
        annotations={}, taints=(), conditions={}, gpu_capacity=None, gpu_allocatable=None, created_at=None,
    )  # fmt: skip
