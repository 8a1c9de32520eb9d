"""Which ComputerSystem of a BMC is the node, and what it says.

Decides the system by the pins (else the only one there is) and reads it. Refuses to choose among several unpinned
systems, and to take sushy's "every reset type" for an offer when the BMC advertised none.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import sushy
from sushy import exceptions as sushy_errors

from fleet.adapters.redfish.identity import Identity, identity, matches, pins_of, told
from fleet.adapters.redfish.session import BoundedConnector, Conversation, KnownAuth
from fleet.ports import hardwareid
from fleet.ports.errors import IdentityMismatch, PermanentError
from fleet.ports.power import BmcTarget, PowerSeen, PowerState

MAX_PAGES = 16  # of the list of systems
_STATES = {
    "On": PowerState.ON,
    "Off": PowerState.OFF,
    "PoweringOn": PowerState.TRANSITION,
    "PoweringOff": PowerState.TRANSITION,
}


def open_service(target: BmcTarget, conversation: Conversation) -> Any:
    """The service root, read. The address's path is where the service lies below; one that goes on to a system, as
    provisioners write it, is of that service, and the pins tell the system."""
    try:
        parts = urlsplit(target.address)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise PermanentError(f"The BMC address of {target.node} is not a URL: {target.address}", code="bmc_address")
    if parts.username or parts.password:
        raise PermanentError(
            f"The BMC address of {target.node} must not hold a credential; give a reference.", code="bmc_address"
        )
    base = f"{parts.scheme}://{parts.netloc}"
    connector = BoundedConnector(base, target.username, target.password, target.verify, conversation)
    return sushy.Sushy(
        base,
        root_prefix=f"{parts.path.partition('/redfish/v1')[0].rstrip('/')}/redfish/v1/",
        auth=KnownAuth(target.username, target.password),
        connector=connector,
    )


def choose_system(service: Any, target: BmcTarget) -> Any:
    """The pinned system, else the only one. A BMC's single system is returned even if its identity differs."""
    paths = _paths(service)
    if not paths:
        raise PermanentError(f"The BMC of {target.node} at {target.address} has no system.", code="bmc_not_found")
    if len(paths) == 1:
        return service.get_system(paths[0])
    pins = pins_of(target)
    if not (pins.uuid or pins.serial):
        raise PermanentError(
            f"The BMC at {target.address} has {len(paths)} systems: pin the UUID or serial of {target.node}.",
            code="bmc_ambiguous",
        )
    # A member named by the UUID is read first; the order of the others does not matter.
    paths.sort(key=lambda path: not hardwareid.same_uuid(path.rstrip("/").rpartition("/")[2], pins.uuid))
    return _pinned(service, paths, pins, target)


def _paths(service: Any) -> list[str]:
    """Of every system that the BMC lists, on however many pages. A page elsewhere is not asked: the credential would
    go there."""
    collection = service.get_system_collection()
    paths = list(collection.members_identities)
    page, asked = _raw(collection), 0
    while link := _text(page.get("Members@odata.nextLink")):
        asked += 1
        if asked > MAX_PAGES or not link.startswith("/") or link.startswith("//"):
            raise PermanentError("The BMC does not list its systems to the end.", code="bmc_ambiguous")
        answer = service._conn.get(link).json()
        page = answer if isinstance(answer, dict) else {}
        members = page.get("Members")
        members = members if isinstance(members, list) else []
        listed = [_text(one.get("@odata.id")) for one in members if isinstance(one, dict)]
        paths += [path for path in listed if path]
    return list(dict.fromkeys(paths))


def _pinned(service: Any, paths: list[str], pins: Identity, target: BmcTarget) -> Any:
    """One system may be out of reach while another answers: a baseboard of GPUs is, while its host is off."""
    found: list[Any] = []
    failures: list[sushy_errors.SushyError] = []
    for path in paths:
        try:
            system = service.get_system(path)
        except sushy_errors.SushyError as error:
            failures.append(error)
            continue
        if matches(identity_of(system), pins):
            if pins.uuid and identity_of(system).uuid:
                return system
            found.append(system)  # a chassis may give all its systems one serial
    if len(found) == 1 and not failures:
        return found[0]
    if found:
        raise PermanentError(
            f"The serial of {target.node} does not tell the systems of the BMC at {target.address} apart: "
            "pin its UUID as well.",
            code="bmc_ambiguous",
        )
    if failures:
        raise failures[0]
    raise IdentityMismatch(
        f"None of the {len(paths)} systems of the BMC of {target.node} at {target.address} has {told(pins)}."
    )


def identity_of(system: Any) -> Identity:
    raw = _raw(system)
    return identity(_text(raw.get("UUID")), _text(raw.get("SerialNumber")))


def reading(system: Any, observed_at: datetime) -> PowerSeen:
    raw, found = _raw(system), identity_of(system)
    progress = raw.get("BootProgress")
    return PowerSeen(
        state=_STATES.get(_text(raw.get("PowerState")), PowerState.UNKNOWN),
        last_reset=_text(raw.get("LastResetTime")) or None,
        uuid=found.uuid,
        serial=found.serial,
        resets=advertised(system),
        observed_at=observed_at,
        boot_progress=_text(progress.get("LastState")) if isinstance(progress, dict) else "",
    )


def advertised(system: Any) -> tuple[str, ...]:
    """The reset types that the BMC offers, () when it does not say."""
    action = _reset_action(system)
    if not (action.get("ResetType@Redfish.AllowableValues") or action.get("@Redfish.ActionInfo")):
        return ()
    try:
        offered = {str(kind.value) for kind in system.get_allowed_reset_system_values()}
    except sushy_errors.HTTPError:
        return ()
    everything = {str(kind.value) for kind in sushy.ResetType}
    # sushy answers "everything" when it could not read the list: that says nothing about this BMC.
    return () if offered == everything else tuple(sorted(offered))


def can_reset(system: Any) -> bool:
    return bool(_reset_action(system).get("target"))


def _reset_action(system: Any) -> dict[str, Any]:
    actions = _raw(system).get("Actions")
    action = actions.get("#ComputerSystem.Reset") if isinstance(actions, dict) else None
    return action if isinstance(action, dict) else {}


def _raw(system: Any) -> dict[str, Any]:
    raw = system.json
    return raw if isinstance(raw, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
