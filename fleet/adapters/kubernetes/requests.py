"""What other controllers ask to be done to a node by objects of their own.

Decides which kinds are looked at (only those whose API group the server has), which object means which node, and when
it says itself that it is over. Refuses to read "may not look" as "nothing there": a missing right is raised.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from fleet.adapters.kubernetes.client import ApiServer
from fleet.ports.clock import Clock
from fleet.ports.cluster import RequestSeen
from fleet.ports.errors import NotFound
from fleet.ports.shapes import items, mapping, moment, text

GROUPS_KEPT = 300.0
"""Seconds for which the server's list of API groups is believed."""
MEDIK8S = "medik8s.io"
MEDIK8S_LEASES = "/apis/coordination.k8s.io/v1/namespaces/medik8s-leases/leases"


@dataclass(frozen=True, slots=True)
class Kind:
    """`ends` are the phases, and condition types that are True, after which nothing more is done."""

    group: str
    plural: str
    kind: str
    ends: tuple[str, ...] = ()


KINDS = (
    Kind("janitor.dgxc.nvidia.com", "rebootnodes", "RebootNode"),
    Kind("janitor.dgxc.nvidia.com", "terminatenodes", "TerminateNode"),
    Kind("janitor.dgxc.nvidia.com", "gpuresets", "GPUReset", ("Succeeded", "Failed", "Complete")),
    Kind("maintenance.nvidia.com", "nodemaintenances", "NodeMaintenance"),
    Kind("nodemaintenance.medik8s.io", "nodemaintenances", "NodeMaintenance", ("Failed",)),
    Kind("self-node-remediation.medik8s.io", "selfnoderemediations", "SelfNodeRemediation"),
    Kind("fence-agents-remediation.medik8s.io", "fenceagentsremediations", "FenceAgentsRemediation"),
    Kind("machine-deletion-remediation.medik8s.io", "machinedeletionremediations", "MachineDeletionRemediation"),
)


class Requests:
    """Reads with one API server's credential; remembers for a while which groups it has."""

    def __init__(self, api: ApiServer, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._groups: dict[str, str] = {}
        self._read_at: float | None = None

    def on(self, node: str) -> list[RequestSeen]:
        groups = self._served()
        found = [seen for kind in KINDS if kind.group in groups for seen in self._of(kind, groups[kind.group], node)]
        if any(group.endswith(MEDIK8S) for group in groups):
            found += self._lease(node)
        return found

    def _served(self) -> dict[str, str]:
        """Group -> the version that the server prefers."""
        now = self._clock.monotonic()
        if self._read_at is None or now - self._read_at > GROUPS_KEPT:
            raw = mapping(self._api.get("/apis", "apis"))
            self._groups = {
                text(group.get("name")): text(mapping(group.get("preferredVersion")).get("version"))
                for group in map(mapping, items(raw.get("groups")))
            }
            self._read_at = now
        return self._groups

    def _of(self, kind: Kind, version: str, node: str) -> Iterator[RequestSeen]:
        path = f"/apis/{kind.group}/{version}/{kind.plural}"
        try:
            page = mapping(self._api.get(path, f"{kind.plural}.{kind.group}", verb="list"))
        except NotFound:  # the group has no such kind in this version
            return
        for raw in map(mapping, items(page.get("items"))):
            if node in _nodes(raw):
                yield _seen(kind, raw)

    def _lease(self, node: str) -> list[RequestSeen]:
        """The lease by which medik8s' operators keep out of each other's way."""
        name = f"node-{node}"
        try:
            raw = mapping(self._api.get(f"{MEDIK8S_LEASES}/{quote(name, safe='')}", "leases.coordination.k8s.io"))
        except NotFound:
            return []
        spec = mapping(raw.get("spec"))
        renewed, seconds = moment(spec.get("renewTime")), spec.get("leaseDurationSeconds")
        over = not text(spec.get("holderIdentity")) or _over(renewed, seconds, self._clock.now())
        return [RequestSeen(MEDIK8S, "Lease", name, text(spec.get("holderIdentity")), over, renewed)]


def _over(renewed: datetime | None, seconds: Any, now: datetime) -> bool:
    """A lease that cannot be read is not over."""
    if renewed is None or not isinstance(seconds, int):
        return False
    return renewed + timedelta(seconds=seconds) < now


def _nodes(raw: dict[str, Any]) -> set[str]:
    """The names by which the object may mean its node. Remediations are named like their node or say its name."""
    metadata = mapping(raw.get("metadata"))
    told = text(mapping(raw.get("spec")).get("nodeName"))
    if told:
        return {told}
    by_note = text(mapping(metadata.get("annotations")).get("remediation.medik8s.io/node-name"))
    return {by_note or text(metadata.get("name"))}


def _seen(kind: Kind, raw: dict[str, Any]) -> RequestSeen:
    metadata, status = mapping(raw.get("metadata")), mapping(raw.get("status"))
    conditions = {text(c.get("type")): c for c in map(mapping, items(status.get("conditions")))}
    phase = text(status.get("phase"))
    true = {name for name, condition in conditions.items() if text(condition.get("status")) == "True"}
    finished = bool(text(status.get("completionTime")) or phase in kind.ends or true & set(kind.ends))
    state = phase or text(conditions.get("Ready", {}).get("reason"))
    begun = moment(status.get("startTime")) or moment(metadata.get("creationTimestamp"))
    return RequestSeen(kind.group, kind.kind, text(metadata.get("name")), state, finished, begun)
