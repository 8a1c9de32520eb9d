"""What the domain asks of a BMC.

Decides the verbs and the observation of power. Refuses to prove a reboot: a BMC's 2xx is never proof, only the node's
new boot id is. Every call is bounded by one deadline for the whole session and first matches the pinned identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class PowerVerb(StrEnum):
    ON = "On"
    FORCE_OFF = "ForceOff"
    GRACEFUL_RESTART = "GracefulRestart"
    FORCE_RESTART = "ForceRestart"
    POWER_CYCLE = "PowerCycle"


class PowerState(StrEnum):
    ON = "on"
    OFF = "off"
    TRANSITION = "transition"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BmcTarget:
    """How to reach one BMC, and who it must be. Empty pins mean: nothing pinned, so no power call is allowed."""

    bmc_id: int
    node: str
    address: str  # https://host[:port][/prefix]
    username: str
    password: str
    verify: bool | str  # False, True or path of a CA bundle
    pinned_uuid: str
    pinned_serial: str

    def __repr__(self) -> str:
        return f"BmcTarget(bmc_id={self.bmc_id}, node={self.node!r}, address={self.address!r})"


@dataclass(frozen=True, slots=True)
class PowerSeen:
    """One reading. `last_reset` is ComputerSystem.LastResetTime as the BMC tells it (its own clock), None if absent."""

    state: PowerState
    last_reset: str | None
    uuid: str
    serial: str
    resets: tuple[str, ...]  # advertised reset types; () when the BMC does not say
    observed_at: datetime
    boot_progress: str = ""


class PowerPort(Protocol):
    """Raises PermanentError (wrong credential or certificate), IdentityMismatch, TemporaryError (5xx, busy, refused),
    UnknownOutcome (time-out or cut after a reset was sent)."""

    def observe(self, target: BmcTarget, deadline_seconds: float) -> PowerSeen:
        """Read state and identity in at most `deadline_seconds` in all; IdentityMismatch when a pin differs."""
        ...

    def reset(self, target: BmcTarget, verb: PowerVerb, deadline_seconds: float) -> PowerSeen:
        """Match identity, then send exactly one reset. Returns the reading taken just before it. Never retries."""
        ...
