"""Which observations on many nodes have one cause that lies outside of them.

Decides, from signs that are open and recent, which of them are one fault of an NVLink domain, a leaf, a mount server, a
power shelf, or of whatever measures (the detector). Pure. Refuses to share what a fresh kernel line says of a named
device, but for NVLink errors, which one sick GPU causes on its whole domain; and refuses to blame a node.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from fleet.health.correlation import is_sympathetic

LEAF, DOMAIN, MOUNT_SERVER, POWER, DETECTOR = "leaf", "nvlink_domain", "mount_server", "power", "detector"
SCOPES = (DOMAIN, MOUNT_SERVER, LEAF, POWER, DETECTOR)
"""In order of precedence: the narrower explanation first."""
ABSENT = "absent"
_OF_SERVERS = ("nfs:", "mount:", "export:")
_ABSENT_CAUSES = frozenset({"node-not-ready", "telemetry-stale"})


@dataclass(frozen=True, slots=True)
class Limits:
    """All that a site may want to change. Times in seconds."""

    window: float = 180.0  # signs further apart are not one event
    settle: float = 25.0  # how long a fault that may be shared waits for company before it is planned
    settle_domain: float = 5.0  # the same for NVLink errors
    linger: float = 60.0  # how long what is left of a shared fault waits before it is the nodes' own
    nodes: int = 5  # the same check on so many nodes: suspect the detector
    share: float = 0.02  # or on this share of the cluster
    least: int = 3  # but never on fewer than this
    leaf_nodes: int = 3
    mount_share: float = 0.3  # of the nodes that mount from one server
    power_nodes: int = 2
    domain_nodes: int = 2
    changed_nodes: int = 2  # of a check whose rule was changed within `changed_window`: suspect the change
    changed_window: float = 900.0


@dataclass(frozen=True, slots=True)
class Shape:
    """How large the scopes are: nodes of the cluster, and how many of them mount from each server.

    `changed`: check -> what of its detector was changed a short while ago, in words that go on a sentence.
    `updated`: node -> what of its software was changed a short while ago, in such words.
    """

    nodes: int
    mounters: Mapping[str, int] = field(default_factory=dict)
    changed: Mapping[str, str] = field(default_factory=dict)
    updated: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sign:
    """One open observation on one node, with the scopes that the node belongs to."""

    node: str
    rule: str
    cause: str
    at: datetime
    device: str = ""
    code: str = ""
    source: str = ""
    leaf: str = ""
    rack: str = ""
    domain: str = ""
    server: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Signs with one cause. `family` is the kind of trouble, and the shared incident's cause."""

    scope: str
    place: str
    family: str
    signs: tuple[Sign, ...]

    @property
    def nodes(self) -> list[str]:
        return sorted({sign.node for sign in self.signs})


Place = tuple[str, str, str]  # scope, place, family


def is_own(source: str, device: str) -> bool:
    """A kernel line that names a part of this node. A server's name is not one."""
    return source == "kernel_log" and bool(device) and not device.startswith(_OF_SERVERS)


def server_of(cause: str, device: str, told: object = "") -> str:
    """The mount server behind a sign of storage: as its evidence tells, else as its device is named."""
    if cause != "mount-hung" and not cause.startswith("nfs-"):
        return ""
    if device.startswith("export:"):
        return device.removeprefix("export:").rsplit(":/", 1)[0]
    return str(told or (device.removeprefix("nfs:") if device.startswith("nfs:") else ""))


def places_of(sign: Sign) -> list[Place]:
    """Where its cause may lie, the narrowest first; nothing for what is the node's own."""
    if is_sympathetic(sign.cause):
        return [(DOMAIN, sign.domain, "nvlink")] if sign.domain else []
    if is_own(sign.source, sign.device):
        return []
    found: list[Place] = []
    if sign.server:
        found.append((MOUNT_SERVER, sign.server, "mount"))
    if sign.leaf and sign.cause.startswith(("ib-", "roce-")):
        found.append((LEAF, sign.leaf, "fabric"))
    if sign.rack and sign.cause.startswith(("psu", "power-supply")):
        found.append((POWER, sign.rack, "power"))
    family = ABSENT if sign.cause in _ABSENT_CAUSES else sign.rule
    return [*found, (DETECTOR, family, family)]


def needed(place: Place, shape: Shape, limits: Limits) -> int:
    """How many nodes make it one shared fault."""
    scope, name, _ = place
    many = max(min(limits.nodes, math.ceil(limits.share * shape.nodes - 1e-9)), limits.least)
    if scope == MOUNT_SERVER:  # so many are too many for any check, and then the server is the narrowest explanation
        known = shape.mounters.get(name, 0)
        return min(many, max(2, math.ceil(limits.mount_share * known - 1e-9))) if known else many
    if scope == DETECTOR:
        return min(many, limits.changed_nodes) if name in shape.changed else many
    return {LEAF: limits.leaf_nodes, POWER: limits.power_nodes, DOMAIN: limits.domain_nodes}[scope]


def group(signs: Iterable[Sign], shape: Shape, limits: Limits, now: datetime) -> list[Group]:
    """The shared faults among the signs; each sign is in at most one of them."""
    begin = now - timedelta(seconds=limits.window)
    left = [sign for sign in signs if sign.at >= begin]
    found: list[Group] = []
    for scope in SCOPES:
        by_place: dict[Place, list[Sign]] = {}
        for sign in left:
            for place in places_of(sign):
                if place[0] == scope:
                    by_place.setdefault(place, []).append(sign)
        taken: set[int] = set()
        for place, members in sorted(by_place.items()):
            nodes = {sign.node for sign in members}
            if len(nodes) >= needed(place, shape, limits) or (scope == DETECTOR and update_of(nodes, shape, limits)):
                found.append(Group(*place, tuple(members)))
                taken.update(id(sign) for sign in members)
        left = [sign for sign in left if id(sign) not in taken]
    return found


def update_of(nodes: Collection[str], shape: Shape, limits: Limits) -> str:
    """What became of most of these nodes a short while ago, if it became of enough of them; else ""."""
    counts = Counter(what for node in nodes for what in set(shape.updated.get(node, ())))
    what, many = max(counts.items(), key=lambda item: (item[1], item[0]), default=("", 0))
    return what if many >= limits.changed_nodes and 2 * many > len(nodes) else ""


def joins(sign: Sign, place: Place, last_joined: datetime, limits: Limits) -> bool:
    """Does a new sign belong to a shared fault that is open already? A detector's only while it is still happening."""
    if place not in places_of(sign):
        return False
    return place[0] != DETECTOR or sign.at - last_joined <= timedelta(seconds=limits.window)


def settles(sign: Sign, limits: Limits) -> float:
    """Seconds that a fault of one node waits for company before anything is planned."""
    if is_sympathetic(sign.cause):
        return limits.settle_domain if sign.domain else 0.0
    return limits.settle if places_of(sign) else 0.0


def blamed(nodes: Iterable[str], local: Mapping[str, str]) -> tuple[str, str] | None:
    """The member with a fault of its own that explains the others, and that cause."""
    return next(((node, local[node]) for node in sorted(nodes) if node in local), None)


_TITLES = {
    DOMAIN: "NVLink errors on %(count)s nodes of NVLink domain %(place)s",
    MOUNT_SERVER: "Mount server %(place)s does not answer %(count)s of its nodes",
    LEAF: "InfiniBand trouble on %(count)s nodes of leaf %(place)s: suspect the switch",
    POWER: "Power supplies failed on %(count)s nodes of rack %(place)s: suspect the power shelf",
    DETECTOR: "%(count)s nodes fail the check %(place)s together: suspect the detector",
}
_SILENT = "%(count)s nodes fell silent together: suspect the network or whatever watches them"
_CHANGED = "%(count)s nodes fail the check %(place)s together since %(changed)s: suspect that change"
_BLAMED = "NVLink errors on %(count)s nodes of NVLink domain %(place)s, by %(node)s (%(cause)s)"


def title(
    place: Place, count: int, blame: tuple[str, str] | None = None, changed: str = ""
) -> tuple[str, dict[str, str]]:
    """The sentence as message id and arguments."""
    scope, name, family = place
    args = {"count": str(count), "place": name}
    if blame is not None:
        return _BLAMED, {**args, "node": blame[0], "cause": blame[1]}
    if changed:
        return _CHANGED, {**args, "changed": changed}
    return (_SILENT if family == ABSENT else _TITLES[scope]), args


def still_shared(place: Place, open_nodes: Sequence[str], shape: Shape, limits: Limits) -> bool:
    """Are there still as many as made it shared?"""
    return len(set(open_nodes)) >= needed(place, shape, limits)
