"""Is this the machine that was pinned?

Decides whether a reading matches a target's pins. Refuses a match by absence: a pin that the BMC cannot confirm by any
value is no match, and one value that differs is a mismatch whatever the other says. What says nothing, such as a
maker's "Default string", is as absent as nothing, whether it is pinned or told.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.ports import hardwareid
from fleet.ports.errors import IdentityMismatch
from fleet.ports.power import BmcTarget


@dataclass(frozen=True, slots=True)
class Identity:
    """UUID and serial as the BMC tells them, normalised."""

    uuid: str
    serial: str


def identity(uuid: str | None, serial: str | None) -> Identity:
    """Of what is told; what says nothing of this machine alone is not kept."""
    return Identity(hardwareid.uuid(uuid), hardwareid.serial(serial))


def pins_of(target: BmcTarget) -> Identity:
    return identity(target.pinned_uuid, target.pinned_serial)


def matches(found: Identity, pins: Identity) -> bool:
    """At least one pin is confirmed, and none is contradicted."""
    said = []
    if pins.uuid and found.uuid:
        said.append(hardwareid.same_uuid(found.uuid, pins.uuid))
    if pins.serial and found.serial:
        said.append(hardwareid.same_serial(found.serial, pins.serial))
    return bool(said) and all(said)


def demand(target: BmcTarget, found: Identity) -> None:
    """IdentityMismatch when something is pinned and `found` is not it."""
    pins = pins_of(target)
    if not (pins.uuid or pins.serial) or matches(found, pins):
        return
    raise IdentityMismatch(
        f"The BMC of {target.node} at {target.address} answers for another machine: it says {told(found)}, "
        f"pinned is {told(pins)}."
    )


def told(identity: Identity) -> str:
    return f"UUID {identity.uuid or 'none'} and serial {identity.serial or 'none'}"
