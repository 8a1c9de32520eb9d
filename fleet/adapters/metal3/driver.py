"""ProvisionPort on BareMetalHosts.

Decides the two writes of a reprovision: the image is taken out of the spec (the host is deprovisioned) and kept in an
annotation of the same write, so that nothing else needs to remember it; when the host is available, the same image is
put back. Both carry the resourceVersion that they were decided on. Refuses a host that another controller owns (it
would put its own image back), one that is detached, paused or externally provisioned, and one of another identity.
"""

from __future__ import annotations

import contextlib
import json
from typing import Any, Protocol
from urllib.parse import quote

from fleet.adapters.metal3 import host
from fleet.ports.errors import IdentityMismatch, NotFound, PermanentError
from fleet.ports.provision import Phase, ProvisionSeen, ProvisionTarget

API = "/apis/metal3.io/v1alpha1"
RESOURCE = "baremetalhosts.metal3.io"


class Objects(Protocol):
    """Custom objects of an API server. Raises `fleet.ports.errors`; a write is sent once."""

    def read(self, path: str, resource: str) -> dict[str, Any]: ...

    def items(self, path: str, resource: str) -> list[dict[str, Any]]: ...

    def patch(self, path: str, resource: str, body: dict[str, Any]) -> dict[str, Any]: ...

    def lacking(self, rights: list[tuple[str, str, str, str]]) -> list[str]:
        """Sentences for each (verb, resource, group, namespace) that the credential may not do."""
        ...


class Metal3Provisioner:
    def __init__(self, objects: Objects, namespace: str) -> None:
        self._objects = objects
        self._namespace = namespace
        self._hosts = f"{API}/namespaces/{quote(namespace, safe='')}/baremetalhosts"

    def check(self) -> list[str]:
        wanted = [(verb, "baremetalhosts", "metal3.io", self._namespace) for verb in ("list", "get", "patch")]
        return self._objects.lacking(wanted)

    def observe(self, target: ProvisionTarget) -> ProvisionSeen:
        return host.seen(self._find(target))

    def submit(self, target: ProvisionTarget, op_id: str, seen: ProvisionSeen) -> None:
        raw = self._find(target)
        if host.seen(raw).version != seen.version:
            # what was decided on is not there any more: the server would say the same of the patch
            raise host.changed(seen.host)
        if seen.phase == Phase.PROVISIONED:
            image = raw["spec"]["image"]
            marks = {host.OP: op_id, host.IMAGE: json.dumps(image, sort_keys=True)}
            self._patch(seen, {"metadata": {"annotations": marks}, "spec": {"image": None}})
        elif seen.phase == Phase.HALFWAY and seen.op_id == op_id:
            image = host.kept_image(raw)
            spec = {"image": image, "online": True}
            self._patch(seen, {"metadata": {"annotations": {host.IMAGE: None}}, "spec": spec})
        else:
            raise PermanentError(f"{seen.host} is {seen.state}: no reprovision begins there.", code="provision_state")

    def _patch(self, seen: ProvisionSeen, body: dict[str, Any]) -> None:
        body["metadata"]["resourceVersion"] = seen.version
        self._objects.patch(f"{self._hosts}/{quote(seen.host, safe='')}", RESOURCE, body)

    def _find(self, target: ProvisionTarget) -> dict[str, Any]:
        """The one host with this identity. A name alone proves nothing."""
        named = host.named_by(target.provider_id, self._namespace)
        if named:
            raw = self._objects.read(f"{self._hosts}/{quote(named, safe='')}", RESOURCE)
            return _proved(raw, target)
        with contextlib.suppress(NotFound):  # most sites name them alike; it saves reading every host
            raw = self._objects.read(f"{self._hosts}/{quote(target.node, safe='')}", RESOURCE)
            if host.matches(raw, target):
                return _proved(raw, target)
        found = [raw for raw in self._objects.items(self._hosts, RESOURCE) if host.matches(raw, target)]
        if len(found) != 1:
            how_many = f"{len(found)} BareMetalHosts" if found else "no BareMetalHost"
            raise PermanentError(
                f"{how_many} of {self._namespace} has the serial, UUID or BMC address of {target.node}.",
                code="provision_unknown_host",
            )
        return _proved(found[0], target)


def _proved(raw: dict[str, Any], target: ProvisionTarget) -> dict[str, Any]:
    said = host.contradiction(raw, target)
    if said:
        raise IdentityMismatch(said)
    if not host.matches(raw, target):
        raise PermanentError(
            f"BareMetalHost {host.name(raw)} tells no serial and no BMC address that prove it to be {target.node}.",
            code="not_pinned",
        )
    return raw
