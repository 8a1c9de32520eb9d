"""ClusterReader on a Kubernetes API server.

Decides which lists, selectors and rights reading needs. Refuses to write (but for asking which rights it has) and to
cache: a single read is always fresh from the server.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, TypeVar
from urllib.parse import quote

from fleet.adapters.kubernetes import access, decode
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.requests import Requests
from fleet.adapters.kubernetes.watch import PAGE, PAGED_TRIES, ListWatch, Resource, Tuning
from fleet.ports.clock import SYSTEM_CLOCK, Clock
from fleet.ports.cluster import Change, EventSeen, NodeSeen, PodSeen, RequestSeen, WatchState
from fleet.ports.errors import MissingRight, NotFound, ResyncNeeded
from fleet.ports.shapes import items, mapping, moment, text

NODES, PODS, EVENTS = "/api/v1/nodes", "/api/v1/pods", "/api/v1/events"
_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
_LIST_ATTEMPTS = PAGED_TRIES + 1
Seen = TypeVar("Seen")

RIGHTS = (
    access.Right("get", "nodes", "a node cannot be read before and after an action"),
    access.Right("list", "nodes", "no node is seen"),
    access.Right("watch", "nodes", "changes of nodes are not seen"),
    access.Right("list", "pods", "what runs on a node is not known"),
    access.Right("watch", "pods", "changes of pods are not seen"),
    access.Right("list", "events", "the events of a node are not shown"),
    access.Right(
        "get", "leases", "heartbeats are up to five minutes old", "coordination.k8s.io", namespace="kube-node-lease"
    ),
)


class KubernetesReader:
    """`counts` tells what the streams met so far: cut, garbage, resync, expired_list, skipped, lost."""

    def __init__(
        self, api: ApiServer, *, node_selector: str = "", clock: Clock = SYSTEM_CLOCK, tuning: Tuning | None = None
    ) -> None:
        self._api = api
        self._clock = clock
        self._tuning = tuning
        self._requests = Requests(api, clock)
        self.counts: Counter[str] = Counter()
        node_params = {"labelSelector": node_selector} if node_selector else {}
        self._nodes = Resource("nodes", NODES, node_params, decode.node, decode.node_key)
        self._pods = Resource("pods", PODS, {}, decode.pod, decode.pod_key)

    @property
    def server(self) -> str:
        return self._api.address

    def check(self) -> list[str]:
        self.server_version()
        return access.missing(self._api, RIGHTS)

    def server_version(self) -> str:
        return text(mapping(self._api.get("/version", "version")).get("gitVersion"))

    def nodes(self) -> list[NodeSeen]:
        found = (self._skipping(decode.node, raw) for raw in self._list(NODES, "nodes", self._nodes.params))
        return [node for node in found if node is not None]

    def node(self, name: str) -> NodeSeen:
        """One node, its heartbeat joined with the lease that its kubelet renews every few seconds."""
        seen = decode.node(self._api.get(f"{NODES}/{quote(name, safe='')}", "nodes"))
        try:
            lease = self._api.get(f"{_NODE_LEASES}/{quote(name, safe='')}", "leases.coordination.k8s.io")
        except (NotFound, MissingRight):
            return seen
        renewed = moment(mapping(mapping(lease).get("spec")).get("renewTime"))
        if renewed is None or (seen.heartbeat_at is not None and seen.heartbeat_at >= renewed):
            return seen
        return dataclasses.replace(seen, heartbeat_at=renewed)

    def pods_on(self, node: str) -> list[PodSeen]:
        return self._pods_where(f"spec.nodeName={node}")

    def unscheduled_pods(self) -> list[PodSeen]:
        return self._pods_where("spec.nodeName=,status.phase=Pending")

    def _pods_where(self, selector: str) -> list[PodSeen]:
        raws = self._list(PODS, "pods", {"fieldSelector": selector})
        found = (self._skipping(decode.pod, raw) for raw in raws)
        return [pod for pod in found if pod is not None]

    def requests_on(self, node: str) -> list[RequestSeen]:
        return self._requests.on(node)

    def events_of(self, kind: str, name: str, namespace: str = "") -> list[EventSeen]:
        path = f"/api/v1/namespaces/{quote(namespace, safe='')}/events" if namespace else EVENTS
        selector = f"involvedObject.kind={kind},involvedObject.name={name}"
        return [decode.event(raw) for raw in self._list(path, "events", {"fieldSelector": selector})]

    def watch_nodes(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return ListWatch(self._api, self._nodes, self.counts, self._clock, self._tuning).run(stop, on_state)

    def watch_pods(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        return ListWatch(self._api, self._pods, self.counts, self._clock, self._tuning).run(stop, on_state)

    def _list(self, path: str, resource: str, params: dict[str, str]) -> list[dict[str, Any]]:
        """All pages of a list; begun anew when its continue token expires on the way, in the end asked for whole."""
        for attempt in range(_LIST_ATTEMPTS):
            found: list[dict[str, Any]] = []
            pages = {"limit": str(PAGE)} if attempt < PAGED_TRIES else {}
            token = ""
            try:
                while True:
                    asked = {**params, **pages} | ({"continue": token} if token else {})
                    page = mapping(self._api.get(path, resource, verb="list", params=asked))
                    found += items(page.get("items"))
                    token = text(mapping(page.get("metadata")).get("continue"))
                    if not token:
                        return found
            except ResyncNeeded:
                if attempt + 1 == _LIST_ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _skipping(self, read: Callable[[Any], Seen], raw: Any) -> Seen | None:
        try:
            return read(raw)
        except Exception:
            # One unreadable object must not hide all others.
            self.counts["skipped"] += 1
            return None
