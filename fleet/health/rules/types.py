"""The words rules speak: Rule, Meaning, NodeFacts, ClusterView, Edge, Verdict.

Decides the shape of a judgement, so that whoever stores or shows it needs to know no rule. Refuses prose that cannot
be translated: an edge's `title` is a message id with %-style `args`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from fleet.telemetry.frame import Frame

Severity = Literal["degraded", "unhealthy"]
ActionClass = Literal[
    "reset_gpu",
    "reboot_node",
    "fence_node",
    "restart_app",
    "inspect",
    "contact_support",
    "confirm",
    "monitor",
    "ignore",
    "replace_part",
    "ticket",
]
Source = Literal["kernel_log", "dcgm", "node_exporter", "kubernetes", "exporter", "health_event"]
EdgeKind = Literal["opened", "refreshed", "cleared"]
VerdictWord = Literal["healthy", "degraded", "unhealthy", "unknown", "lost"]
ModeWord = Literal["observe", "recommend", "automate"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as data. `threshold` is in `unit`; `window` and `clear` are seconds; `scrapes` of `of` must be bad."""

    id: str
    title: str
    reads: tuple[str, ...]
    source: Source
    severity: Severity
    action_class: ActionClass
    origin: str  # which published document the limit comes from, in our words
    threshold: float = 0.0
    unit: str = ""
    window: float = 0.0
    scrapes: int = 1
    of: int = 1
    clear: float = 0.0
    latched: bool = False
    tunes: tuple[str, ...] = ()  # which of the numbers above mean something to this rule
    enabled: bool = True
    shadow: bool = False  # signals are recorded and shown; no incident, no verdict
    mode: ModeWord = "automate"  # the most that is done for it: plans shown, plans approved by people, or no limit


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a code of the driver, a switch or DCGM says. `severity` None: worth counting, no finding."""

    code: int
    name: str
    action: ActionClass
    severity: Severity | None
    source: str
    link: str = ""  # of an NVLink fault: which link, and at which end it began as far as its words tell
    end: str = ""

    def told(self) -> dict[str, str]:
        """What is known of the part, for the evidence."""
        return {key: text for key, text in (("link", self.link), ("end", self.end)) if text}


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What is known of a node besides its samples.

    `boot_at`: when the current boot was first seen or began. `connected_at`: when this node's cluster was first
    connected. `remediated_at`: end of our last remediation. Evidence older than any of the three is history.
    `in_remediation`: we are at work on it, so what is absent (Ready, GPUs, links, mounts) opens nothing until then.
    """

    name: str
    ready: bool | None
    connected_at: datetime
    ready_since: datetime | None = None
    ready_reason: str = ""
    boot_id: str = ""
    boot_at: datetime | None = None
    remediated_at: datetime | None = None
    managed: bool = True
    gpu_expected: int | None = None
    in_remediation: bool = False
    pool: str = ""
    workload: str = ""  # the gang that works on the node, empty where none is known
    gpu_capacity: int | None = None
    gpu_allocatable: int | None = None
    gpus_advertised: bool = True  # by a device plugin; claims (DRA) leave no count on the node
    gpus_elsewhere: bool = False  # handed to virtual machines (vfio): the host and its exporters do not see them
    gpus_divided: bool = False  # MIG, time-slicing or passthrough: what is advertised are no whole GPUs

    @property
    def horizon(self) -> datetime:
        """Evidence before this moment is history."""
        return max(at for at in (self.connected_at, self.boot_at, self.remediated_at) if at is not None)


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything one cycle may look at. `monotonic` is of the same clock as the frame's receive times."""

    now: datetime
    monotonic: float
    frame: Frame
    nodes: Mapping[str, NodeFacts]


@dataclass(frozen=True, slots=True)
class Edge:
    """A change in one finding. `cause` is stable across sources; (node, device, cause) names the finding."""

    kind: EdgeKind
    rule_id: str
    node: str
    device: str
    code: str
    cause: str
    severity: Severity
    action_class: ActionClass
    title: str
    args: dict[str, str]
    first_bad_at: datetime
    detected_at: datetime
    source: Source
    latched: bool = False
    evidence: dict[str, Any] = field(default_factory=dict)
    shadow: bool = False
    mode: ModeWord = "automate"

    @property
    def text(self) -> str:
        """The sentence in English."""
        return self.title % self.args


@dataclass(frozen=True, slots=True)
class DeviceVerdict:
    verdict: VerdictWord
    reason: str
    rule: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Verdict:
    """A node's verdict. `devices` holds only those that are not healthy. `reason` is a sentence, empty when healthy."""

    verdict: VerdictWord
    reason: str
    rule: str
    since: datetime
    devices: Mapping[str, DeviceVerdict] = field(default_factory=dict)
