"""A BareMetalHost object as a reading.

Decides what its states, annotations and identities mean. Pure. Refuses to take a state that it does not know for a good
one, and to read an image out of an annotation that is none.
"""

from __future__ import annotations

import json
from typing import Any

from fleet.ports import hardwareid
from fleet.ports.errors import Conflict, PermanentError
from fleet.ports.provision import Phase, ProvisionSeen, ProvisionTarget, bmc_place

OP = "muster.dev/reprovision"
IMAGE = "muster.dev/reprovision-image"
DETACHED, PAUSED = "baremetalhost.metal3.io/detached", "baremetalhost.metal3.io/paused"
BUSY = frozenset({"provisioning", "deprovisioning", "preparing", "registering", "inspecting", "matching"})
FREE = frozenset({"available", "ready"})  # `ready` is the older word
Json = dict[str, Any]


def mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def name(raw: Json) -> str:
    return text(mapping(raw.get("metadata")).get("name"))


def marks_of(raw: Json) -> dict[str, str]:
    found = mapping(mapping(raw.get("metadata")).get("annotations"))
    return {key: value for key, value in found.items() if isinstance(value, str)}


def seen(raw: Json) -> ProvisionSeen:
    status, spec, marks = mapping(raw.get("status")), mapping(raw.get("spec")), marks_of(raw)
    provisioning = mapping(status.get("provisioning"))
    state, operational = text(provisioning.get("state")), text(status.get("operationalStatus"))
    history = mapping(mapping(status.get("operationHistory")).get("provision"))
    phase, error = _phase(state, operational, spec, marks), text(status.get("errorMessage"))
    return ProvisionSeen(
        host=name(raw),
        phase=phase,
        state=f"{state or 'unknown'} ({operational})" if operational not in ("", "OK") else state or "unknown",
        mark="/".join((state, marks.get(OP, ""), text(history.get("start")), text(history.get("end")))),
        version=text(mapping(raw.get("metadata")).get("resourceVersion")),
        op_id=marks.get(OP, ""),
        error=f"{text(status.get('errorType'))}: {error}" if error else "",
        image=text(mapping(provisioning.get("image")).get("url")),
        refusals=tuple(_refusals(raw, spec, marks)),
    )


def _phase(state: str, operational: str, spec: Json, marks: dict[str, str]) -> Phase:
    wants_image = bool(mapping(spec.get("image")))
    if operational == "error":
        return Phase.FAILED
    if state == "provisioned":
        # the controller has not seen yet that the image is gone, or is back
        return Phase.PROVISIONED if wants_image and IMAGE not in marks else Phase.WORKING
    if state in FREE:
        if wants_image:
            return Phase.WORKING
        return Phase.HALFWAY if IMAGE in marks else Phase.OTHER
    return Phase.WORKING if state in BUSY else Phase.OTHER


def _refusals(raw: Json, spec: Json, marks: dict[str, str]) -> list[str]:
    found = []
    owner = mapping(spec.get("consumerRef"))
    if owner:
        called = f"{text(owner.get('kind')) or 'another object'} {text(owner.get('name'))}"
        found.append(f"{called} owns the host: reprovision it there.")
    if mapping(spec.get("customDeploy")) or spec.get("externallyProvisioned") is True:
        found.append("its image is not Metal3's to install (custom deploy or externally provisioned).")
    if DETACHED in marks or PAUSED in marks:
        found.append("it is detached or paused: Metal3 does nothing with it.")
    if mapping(raw.get("metadata")).get("deletionTimestamp"):
        found.append("it is being deleted.")
    return [f"BareMetalHost {name(raw)}: {said}" for said in found]


def kept_image(raw: Json) -> Json:
    """The image that the host had. PermanentError when the annotation is no image any more."""
    try:
        image = mapping(json.loads(marks_of(raw).get(IMAGE, "")))
    except ValueError:
        image = {}
    if not text(image.get("url")):
        raise PermanentError(
            f"BareMetalHost {name(raw)} has lost the annotation {IMAGE}: a person must put its image back.",
            code="provision_image_lost",
        )
    return image


def named_by(provider_id: str, namespace: str) -> str:
    """The host that a Node's `metal3://namespace/host/machine` names; "" for other forms."""
    if not provider_id.startswith("metal3://"):
        return ""
    parts = provider_id.removeprefix("metal3://").split("/")
    return parts[1] if len(parts) == 3 and parts[0] == namespace else ""


def serial(raw: Json) -> str:
    vendor = mapping(mapping(mapping(raw.get("status")).get("hardware")).get("systemVendor"))
    return hardwareid.serial(text(vendor.get("serialNumber")))


def address(raw: Json) -> str:
    """Host and path of its BMC without the driver's scheme: `redfish-virtualmedia+https://10.0.0.1/redfish/v1/..`."""
    return bmc_place(text(mapping(mapping(raw.get("spec")).get("bmc")).get("address")))


def matches(raw: Json, target: ProvisionTarget) -> bool:
    """Is there one identity that both tell, the same?"""
    told = serial(raw)
    if hardwareid.same_serial(told, target.serial):
        return True
    where = address(raw)
    if where and where in {bmc_place(one) for one in target.bmc_addresses}:
        return True
    uid = text(mapping(raw.get("metadata")).get("uid"))
    return bool(uid) and target.provider_id in (f"metal3://{uid}", f"metal3:///{uid}")


def contradiction(raw: Json, target: ProvisionTarget) -> str:
    """A sentence when it tells another serial than the pinned one; "" if not."""
    told = serial(raw)
    if told and hardwareid.serial(target.serial) and not hardwareid.same_serial(told, target.serial):
        return f"BareMetalHost {name(raw)} has serial {told}, {target.node} is pinned to {target.serial}."
    return ""


def changed(name: str) -> Conflict:
    return Conflict(f"BareMetalHost {name} changed since it was read.")
