"""Is this the machine that was pinned?

Decides whether a reading matches a target's pins. Refuses a match by absence: a pin that the BMC cannot confirm by any
value is no match, and one value that differs is a mismatch whatever the other says.
"""

from __future__ import annotations

import uuid as uuids
from dataclasses import dataclass

from fleet.ports.errors import IdentityMismatch
from fleet.ports.power import BmcTarget


@dataclass(frozen=True, slots=True)
class Identity:
    """UUID and serial as the BMC tells them, normalised."""

    uuid: str
    serial: str


def same_uuid(value: str | None) -> str:
    """Case, braces and surrounding space do not make another UUID."""
    plain = (value or "").strip().strip("{}").lower()
    try:
        return str(uuids.UUID(plain))
    except ValueError:
        return plain


def same_serial(value: str | None) -> str:
    return " ".join((value or "").split())


def pins_of(target: BmcTarget) -> Identity:
    return Identity(same_uuid(target.pinned_uuid), same_serial(target.pinned_serial))


def matches(found: Identity, pins: Identity) -> bool:
    """At least one pin is confirmed, and none is contradicted."""
    pairs = ((found.uuid, pins.uuid), (found.serial, pins.serial))
    asked = [(value, pin) for value, pin in pairs if pin and value]
    return bool(asked) and all(value == pin for value, pin in asked)


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
