"""Kueue's own order of what waits: the place of each workload in its cluster queue, from its visibility API.

Decides that only queues in which something waits are asked, and that a server without that API tells no places, which
is no trouble. Refuses to give a workload a place that it was not told: where a list is cut short, the rest has none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.schedulers.objects import number
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.errors import MissingRight, NotFound, PortError
from fleet.ports.gangs import Reading, System, key_of
from fleet.ports.shapes import items, mapping, text

GROUP, QUEUES = "visibility.kueue.x-k8s.io", "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1", "v1alpha1")
LIMIT, MOST_QUEUES = 1000, 200
ASKED_AGAIN = 300.0
"""Seconds for which it is believed that the API is not served."""


class KueuePlaces:
    system: System = "kueue"

    def __init__(self, api: ApiServer, clock: Clock = SYSTEM_CLOCK) -> None:
        self._api, self._clock = api, clock
        self._absent_until = float("-inf")

    def read(self) -> Reading:
        at = self._clock.now()
        if self._clock.monotonic() < self._absent_until:
            return Reading(at)
        version, of_queues = self._version(GROUP), self._version(QUEUES)
        if not version or not of_queues:
            self._absent_until = self._clock.monotonic() + ASKED_AGAIN
            return Reading(at)
        places: dict[str, int] = {}
        troubles: list[str] = []
        for name in list(self._waiting(of_queues))[:MOST_QUEUES]:
            try:
                places |= self._places(version, name)
            except NotFound:
                continue  # it went between two questions
            except MissingRight as error:
                troubles.append(f"Places in Kueue's queues are not known: {error}")
                break
            except PortError as error:
                troubles.append(f"Places in Kueue's queue {name} are not known: {error}")
        return Reading(at, positions=tuple(sorted(places.items())), troubles=tuple(troubles))

    def _version(self, group: str) -> str:
        try:
            raw = mapping(self._api.get(f"/apis/{group}", "apis"))
        except NotFound:
            return ""
        served = {text(one.get("version")) for one in items(raw.get("versions"))}
        return next((version for version in VERSIONS if version in served), "")

    def _waiting(self, version: str) -> Iterator[str]:
        raw = mapping(self._api.get(f"/apis/{QUEUES}/{version}/clusterqueues", f"clusterqueues.{QUEUES}", verb="list"))
        for one in items(raw.get("items")):
            name = text(mapping(one.get("metadata")).get("name"))
            if name and number(mapping(one.get("status")).get("pendingWorkloads")) != 0:
                yield name

    def _places(self, version: str, queue: str) -> dict[str, int]:
        path = f"/apis/{GROUP}/{version}/clusterqueues/{quote(queue, safe='')}/pendingworkloads"
        raw: Any = self._api.get(path, f"clusterqueues/pendingworkloads.{GROUP}", params={"limit": str(LIMIT)})
        found: dict[str, int] = {}
        for one in items(mapping(raw).get("items")):
            meta, place = mapping(one.get("metadata")), number(one.get("positionInClusterQueue"))
            name, namespace = text(meta.get("name")), text(meta.get("namespace"))
            if name and place is not None and place >= 0:
                found[key_of("kueue", "Workload", namespace, name)] = place
        return found
