"""What the domain asks of whoever installs images on hosts (Metal3, Ironic).

Decides the phases of a reprovision and what is observed of one. Refuses to prove that a node works: a provider that
says "provisioned" is half of the proof, the node's new boot is the other. No provider takes an idempotency key, so
every request carries the state that it was decided on, and a reading tells whether an operation has begun since.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol
from urllib.parse import urlsplit


class Phase(StrEnum):
    PROVISIONED = "provisioned"  # an image is on it and the provider is content
    WORKING = "working"
    HALFWAY = "halfway"  # the next request of the same reprovision is due
    FAILED = "failed"  # the provider gave up and says why
    OTHER = "other"  # in no state from which, or through which, a reprovision leads


@dataclass(frozen=True, slots=True)
class ProvisionTarget:
    """By which identities a host may be found and must be proved: those of its BMC and of its Node object."""

    node: str
    serial: str = ""
    uuid: str = ""
    provider_id: str = ""
    bmc_addresses: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProvisionSeen:
    """One reading. `mark` changes whenever an operation begins or ends there; `version` is a precondition of a write.

    `op_id` is that of the request which the provider works on or did last, "" where it can keep none.
    """

    host: str  # what the provider calls it
    phase: Phase
    state: str  # the provider's own word
    mark: str
    version: str = ""
    op_id: str = ""
    error: str = ""
    image: str = ""
    refusals: tuple[str, ...] = field(default=())  # why this host must not be reprovisioned through this provider


class ProvisionPort(Protocol):
    """Raises PermanentError (no such host, wrong credential), IdentityMismatch, TemporaryError (busy, unreachable),
    Conflict (it changed since it was read), UnknownOutcome (no answer after a request was sent)."""

    def check(self) -> list[str]:
        """Reach it; sentences of what is missing, [] if all is well."""
        ...

    def observe(self, target: ProvisionTarget) -> ProvisionSeen:
        """Find the host by its identities and read it. Never writes."""
        ...

    def submit(self, target: ProvisionTarget, op_id: str, seen: ProvisionSeen) -> None:
        """Send the next request of the reprovision `op_id`, once, decided on `seen` (PROVISIONED or HALFWAY)."""
        ...


def bmc_place(address: str) -> str:
    """Where a BMC is, whatever the spelling: host, port and the path before Redfish's, without a scheme. Pure."""
    parts = urlsplit(address if "://" in address else f"//{address}")
    return f"{parts.netloc}{parts.path}".partition("/redfish/v1")[0].rstrip("/").casefold()
