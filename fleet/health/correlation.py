"""Which observations are the same fault.

Decides whether an edge asks for an incident at all, which open incident it belongs to, and whether it makes that one
worse. Pure: works on what it is given. Refuses to join faults of different devices, or across nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

AFTER_EFFECT = timedelta(seconds=5)
"""What follows a fatal error of the same GPU within this is its after-effect (field studies coalesce by 5 s)."""
SAME_FAULT = timedelta(seconds=60)
"""Two causes that ask for action on one device within this are one fault seen twice."""
KIN = (
    frozenset({"xid-79", "gpu-lost"}),
    frozenset({"clock-slowed", "clock-hw-slowdown", "clock-power-brake", "clock-reasons"}),
)
"""Causes that are one physical event however far apart their sources notice it."""
LOCAL_CAUSES = frozenset(f"xid-{code}" for code in (48, 62, 79, 95, 109, 110, 119, 120, 140, 158))
"""Errors of one GPU by itself: it is the likely origin of the NVLink errors of its peers."""
FABRIC_FAULT = timedelta(seconds=180)
"""NVLink errors of a node's GPUs and NVSwitches within this are one fault of what connects them."""
_OF_CABLES = frozenset(
    {"ib-down", "ib-flap", "ib-rate", "ib-symbol", "ib-symbol-hour", "ib-recovery", "ib-rcv-errors", "ib-integrity"}
)
"""Causes on an HCA's port that are its cable's; whatever its switch or the fabric's manager sees is one as well."""
NODE_WIDE = frozenset({"mount-hung", "nfs-timeouts"})
"""Causes that name several devices of a node for one fault: a server that hangs stops its log line and each mount."""

SEVERITIES = ("degraded", "unhealthy")
ACTIONS = (
    "ignore",
    "monitor",
    "restart_app",
    "confirm",
    "ticket",
    "inspect",
    "contact_support",
    "reset_gpu",
    "reboot_node",
    "fence_node",
    "replace_part",
)
ACTING = frozenset(
    {"confirm", "ticket", "inspect", "contact_support", "reset_gpu", "reboot_node", "fence_node", "replace_part"}
)
"""Action classes that ask somebody to do something to the node; the others are signals without an incident."""


class Observed(Protocol):
    """What of an edge matters here."""

    @property
    def device(self) -> str: ...
    @property
    def cause(self) -> str: ...
    @property
    def severity(self) -> str: ...
    @property
    def action_class(self) -> str: ...
    @property
    def first_bad_at(self) -> datetime: ...
    @property
    def evidence(self) -> Mapping[str, Any]: ...


class Known(Protocol):
    """What of an open incident of the same node matters here."""

    device: str
    cause: str
    severity: str
    action_class: str
    first_bad_at: datetime
    detected_at: datetime


SomeKnown = TypeVar("SomeKnown", bound=Known)


def asks_for_action(action_class: str) -> bool:
    return action_class in ACTING


def belongs_to(edge: Observed, open_here: Iterable[SomeKnown]) -> SomeKnown | None:
    """The open incident of the edge's node that it is a sign of, or None."""
    here = list(open_here)
    if edge.cause in NODE_WIDE:
        return next((incident for incident in here if incident.cause in NODE_WIDE), None)
    same_device = [incident for incident in here if incident.device == edge.device]
    for incident in same_device:
        if incident.cause == edge.cause or any({incident.cause, edge.cause} <= kin for kin in KIN):
            return incident
        if of_cable(incident.cause) and of_cable(edge.cause):  # one cable, seen from either end
            return incident
    if is_sympathetic(edge.cause):
        return _of_fabric(edge, here)
    if not edge.device:  # on the host itself two causes are two faults
        return None
    window = SAME_FAULT if asks_for_action(edge.action_class) else AFTER_EFFECT
    near = [incident for incident in same_device if _distance(edge.first_bad_at, incident) <= window]
    return min(near, key=lambda incident: _distance(edge.first_bad_at, incident), default=None)


def is_sympathetic(cause: str) -> bool:
    """NVLink and NVSwitch errors show on every GPU that is connected, whichever is sick."""
    return cause == "xid-74" or cause.startswith("sxid")


def _of_fabric(edge: Observed, here: Iterable[SomeKnown]) -> SomeKnown | None:
    """A GPU that failed by itself explains the NVLink errors of its node; else they are one fault of the fabric."""
    known = [incident for incident in here if not incident.device and is_sympathetic(incident.cause)]
    if known:
        return known[0]
    near = [incident for incident in here if _distance(edge.first_bad_at, incident) <= FABRIC_FAULT]
    culprit = next((incident for incident in near if incident.cause in LOCAL_CAUSES), None)
    return culprit or next((incident for incident in near if is_sympathetic(incident.cause)), None)


def widens(edge: Observed, incident: Known) -> bool:
    """Is the edge a sign that an NVLink fault is not of one GPU, but of what connects several?"""
    both = is_sympathetic(edge.cause) and is_sympathetic(incident.cause)
    return both and bool(incident.device) and edge.device != incident.device


def of_cable(cause: str) -> bool:
    return cause in _OF_CABLES or cause.startswith(("ib-switch-", "ib-alarm"))


def _distance(at: datetime, incident: Known) -> timedelta:
    if incident.first_bad_at <= at <= incident.detected_at:
        return timedelta(0)
    return min(abs(at - incident.first_bad_at), abs(at - incident.detected_at))


def worse(edge: Observed, incident: Known) -> bool:
    """Does the edge ask for more than the incident does?"""
    if not asks_for_action(edge.action_class):
        return False
    own = incident.device == edge.device  # what a driver asks of one GPU does not heal what connects several
    if edge.evidence.get("recovery_line") and own:  # it outranks what the table of codes said
        return edge.action_class != incident.action_class
    return rank(edge.severity, edge.action_class) > rank(incident.severity, incident.action_class)


def rank(severity: str, action_class: str) -> tuple[int, int]:
    return (
        ACTIONS.index(action_class) if action_class in ACTIONS else 0,
        SEVERITIES.index(severity) if severity in SEVERITIES else 0,
    )
