"""What the domain asks of a fabric's manager, and the facts it gets back.

Decides the normal form of links and alarms: GUIDs as 16 hex digits, ports as numbers in text, names as the fabric
spells them. Refuses to say whose an end is: that is for the alias table.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

_GUID = re.compile(r"(?:0x)?([0-9a-f]{1,16})", re.IGNORECASE)


def guid_of(text: object) -> str:
    """One form of a GUID, 16 lower-case hex digits; empty when it is none."""
    found = _GUID.fullmatch(text) if isinstance(text, str) else None
    return found[1].lower().rjust(16, "0") if found else ""


@dataclass(frozen=True, slots=True)
class EndSeen:
    """One end of a link. `name` is its node's description: `gpu-001 mlx5_3` of an HCA, its own name of a switch."""

    guid: str
    port: str
    name: str


@dataclass(frozen=True, slots=True)
class AlarmSeen:
    """An alarm that stands now, on one port. `code` is the manager's number for its kind, `name` its words."""

    guid: str
    port: str
    code: str
    name: str
    severity: str


@dataclass(frozen=True, slots=True)
class LinksSeen:
    """`refused` counts entries that could not be read, by reason."""

    links: Sequence[tuple[EndSeen, EndSeen]]
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class AlarmsSeen:
    alarms: Sequence[AlarmSeen]
    refused: Counter[str] = field(default_factory=Counter)


class FabricReader(Protocol):
    """Reads only. Blocks; thread-safe. Raises `fleet.ports.errors`, never with anything of a credential."""

    def links(self) -> LinksSeen: ...

    def alarms(self) -> AlarmsSeen: ...

    def telemetry(self) -> bytes:
        """Exposition text of the ports' counters."""
        ...

    def sharp(self) -> bytes:
        """Exposition text of the aggregation manager."""
        ...
