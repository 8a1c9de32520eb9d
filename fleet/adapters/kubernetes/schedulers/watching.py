"""GangWatcher on a Kubernetes API server: which of the kinds it serves, and each as a stream.

Decides one version of each kind by discovery, so that a server of any release is read by the version it has. Refuses to
ask for what is not served, and to take a forbidden list for an empty one: the stream says which right is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.decode import pod_key
from fleet.adapters.kubernetes.schedulers import (
    bindrequest,
    coscheduling,
    hypernode,
    jobset,
    kai,
    kubeflow,
    kueue,
    kueuequeues,
    lws,
    native,
    ray,
    slinky,
    volcano,
)
from fleet.adapters.kubernetes.schedulers.objects import Reader
from fleet.adapters.kubernetes.watch import ListWatch, Resource, Tuning
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import Change, WatchState
from fleet.ports.errors import NotFound
from fleet.ports.gangs import Kind
from fleet.ports.shapes import items, mapping, text

MODULES = (
    ray,
    coscheduling,
    volcano,
    hypernode,
    kai,
    bindrequest,
    kueue,
    kueuequeues,
    native,
    jobset,
    lws,
    kubeflow,
    slinky,
)
READERS: tuple[Reader, ...] = tuple(reader for module in MODULES for reader in module.READERS)


class GangWatches:
    """`counts` tells what the streams met, like those of `KubernetesReader`."""

    def __init__(self, api: ApiServer, *, clock: Clock = SYSTEM_CLOCK, tuning: Tuning | None = None) -> None:
        self._api = api
        self._clock = clock
        self._tuning = tuning
        self.counts: Counter[str] = Counter()

    def kinds(self) -> Sequence[Kind]:
        served = self._served()
        found: list[Kind] = []
        plurals: dict[tuple[str, str], frozenset[str]] = {}
        for reader in READERS:
            for version in reader.versions:
                if version not in served.get(reader.group, ()):
                    continue
                at = (reader.group, version)
                if at not in plurals:
                    plurals[at] = self._plurals(*at)
                if reader.plural in plurals[at]:
                    found.append(Kind(reader.system, reader.kind, reader.group, version, reader.plural))
                    break
        return found

    def watch(self, kind: Kind, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        reader = next(r for r in READERS if (r.group, r.plural, r.kind) == (kind.group, kind.plural, kind.kind))
        resource = Resource(f"{kind.plural}.{kind.group}", kind.path, {}, reader.decode, pod_key)
        return ListWatch(self._api, resource, self.counts, self._clock, self._tuning).run(stop, on_state)

    def _served(self) -> dict[str, tuple[str, ...]]:
        """Group -> versions."""
        raw = mapping(self._api.get("/apis", "apis"))
        return {
            text(group.get("name")): tuple(text(version.get("version")) for version in items(group.get("versions")))
            for group in items(raw.get("groups"))
        }

    def _plurals(self, group: str, version: str) -> frozenset[str]:
        """A version that went between two questions has nothing."""
        try:
            raw = mapping(self._api.get(f"/apis/{group}/{version}", "apis"))
        except NotFound:
            return frozenset()
        return frozenset(text(resource.get("name")) for resource in items(raw.get("resources")))
