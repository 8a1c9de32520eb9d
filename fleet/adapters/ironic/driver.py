"""ProvisionPort over Ironic.

Decides how a node is found (by the instance that its Node names, else by its name) and proved (the instance, the
BMC's address, or its serial), and what its provision states mean. A reprovision is one `rebuild`, which keeps instance
and image. Refuses a node in maintenance, a protected one, one without an image, and one that nothing proves.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any
from urllib.parse import quote

from fleet.adapters.ironic import Connection
from fleet.adapters.ironic.client import IronicClient
from fleet.ports import hardwareid
from fleet.ports.errors import Conflict, IdentityMismatch, NotFound, PermanentError
from fleet.ports.provision import Phase, ProvisionSeen, ProvisionTarget, bmc_place

Json = dict[str, Any]
FAILED = frozenset({"deploy failed", "clean failed", "error", "service failed"})
WORKING = frozenset(
    {"deploying", "wait call-back", "deploy hold", "rebuild", "servicing", "service wait", "cleaning", "clean wait"}
)
_INSTANCE = re.compile(r"openstack://[^/]*/([0-9a-f-]{36})")


class IronicProvisioner:
    def __init__(self, connection: Connection) -> None:
        self._client = IronicClient(connection)

    def check(self) -> list[str]:
        self._client.get("/nodes", {"limit": "1"})
        return []

    def observe(self, target: ProvisionTarget) -> ProvisionSeen:
        return seen(self._find(target))

    def submit(self, target: ProvisionTarget, op_id: str, seen: ProvisionSeen) -> None:
        """Ironic keeps no op_id; that nothing began since `seen` is looked at just before."""
        now = self.observe(target)
        if (now.host, now.mark) != (seen.host, seen.mark):
            raise Conflict(f"Ironic's node {seen.host} changed since it was read: it is {now.state}.")
        self._client.put(f"/nodes/{quote(seen.host, safe='')}/states/provision", {"target": "rebuild"})

    def _find(self, target: ProvisionTarget) -> Json:
        instance = _INSTANCE.fullmatch(target.provider_id)
        if instance:
            found = self._client.get("/nodes/detail", {"instance_uuid": instance[1]}).get("nodes")
            rows = [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []
            if len(rows) != 1:
                raise _unknown(f"Ironic has {len(rows)} nodes with the instance {instance[1]}.")
            return self._proved(rows[0], target, instance[1])
        try:
            raw = self._client.get(f"/nodes/{quote(target.node, safe='')}")
        except NotFound as error:
            raise _unknown(f"Ironic has no node named {target.node}.") from error
        return self._proved(raw, target, "")

    def _proved(self, raw: Json, target: ProvisionTarget, instance: str) -> Json:
        told = self._serial(raw)
        if told and hardwareid.serial(target.serial) and not hardwareid.same_serial(told, target.serial):
            said = f"Ironic's node {raw.get('name')} has serial {told}, {target.node} is pinned to {target.serial}."
            raise IdentityMismatch(said)
        same_serial = hardwareid.same_serial(told, target.serial)
        same_instance = bool(instance) and raw.get("instance_uuid") == instance
        if same_serial or same_instance or _places(raw) & {bmc_place(one) for one in target.bmc_addresses}:
            return raw
        text = f"Ironic's node {raw.get('name')} tells no serial, instance or BMC address that prove it to be"
        raise PermanentError(f"{text} {target.node}.", code="not_pinned")

    def _serial(self, raw: Json) -> str:
        """What was entered by hand, else what an inspection found."""
        entered = _mapping(raw.get("extra")).get("serial") or _mapping(raw.get("properties")).get("serial_number")
        if isinstance(entered, str) and hardwareid.serial(entered):
            return hardwareid.serial(entered)
        with contextlib.suppress(NotFound):
            inventory = self._client.get(f"/nodes/{quote(str(raw.get('uuid')), safe='')}/inventory")
            vendor = _mapping(_mapping(inventory.get("inventory")).get("system_vendor"))
            found = vendor.get("serial_number")
            return hardwareid.serial(found) if isinstance(found, str) else ""
        return ""


def seen(raw: Json) -> ProvisionSeen:
    state = str(raw.get("provision_state") or "unknown")
    error = raw.get("last_error")
    return ProvisionSeen(
        host=str(raw.get("uuid") or ""),
        phase=_phase(state),
        state=state,
        mark=f"{raw.get('provision_updated_at') or ''}/{state}",
        error=" ".join(str(error).split())[:400] if error else "",
        image=str(_mapping(raw.get("instance_info")).get("image_source") or ""),
        refusals=tuple(_refusals(raw)),
    )


def _phase(state: str) -> Phase:
    if state == "active":
        return Phase.PROVISIONED
    if state in FAILED:
        return Phase.FAILED
    return Phase.WORKING if state in WORKING else Phase.OTHER


def _refusals(raw: Json) -> list[str]:
    found = []
    if raw.get("maintenance"):
        why = raw.get("maintenance_reason")
        found.append(f"it is in maintenance{f' ({why})' if why else ''}.")
    if raw.get("protected"):
        found.append("it is protected from being rebuilt.")
    if not _mapping(raw.get("instance_info")).get("image_source"):
        found.append("it has no image to install.")
    return [f"Ironic's node {raw.get('name') or raw.get('uuid')}: {said}" for said in found]


def _places(raw: Json) -> set[str]:
    """Hosts of its BMC as its driver knows them: redfish_address, ipmi_address, ..."""
    info = _mapping(raw.get("driver_info"))
    return {bmc_place(str(value)) for key, value in info.items() if key.endswith("_address") and value} - {""}


def _mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _unknown(text: str) -> PermanentError:
    return PermanentError(text, code="provision_unknown_host")
