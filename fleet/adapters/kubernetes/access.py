"""Which rights a credential has, proved by the API server itself.

Decides the questions (SelfSubjectAccessReview, one per verb and resource) and the sentences for what lacks. Refuses
to infer a right from a role's name or from a call that happened to work.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.adapters.kubernetes.client import ApiServer, decode
from fleet.adapters.kubernetes.errors import refused
from fleet.ports.errors import MissingRight, NotFound
from fleet.ports.shapes import mapping, text

_PATH = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


@dataclass(frozen=True, slots=True)
class Right:
    """`why` ends the sentence that tells a person what does not work without this right."""

    verb: str
    resource: str
    why: str
    group: str = ""
    subresource: str = ""
    namespace: str = ""

    @property
    def named(self) -> str:
        path = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{path}.{self.group}" if self.group else path


def missing(api: ApiServer, rights: tuple[Right, ...]) -> list[str]:
    """One sentence per right that lacks; raises when the server cannot be asked."""
    sentences = []
    for right in rights:
        try:
            allowed, reason = _review(api, right)
        except (MissingRight, NotFound) as error:
            return [f"{api.address} does not tell which rights the credential has: {error}"]
        if not allowed:
            where = f" in namespace {right.namespace}" if right.namespace else ""
            more = f" ({reason})" if reason else ""
            what = f"{right.verb} {right.named}{where} at {api.address}"
            sentences.append(f"The credential may not {what}: {right.why}.{more}")
    return sentences


def _review(api: ApiServer, right: Right) -> tuple[bool, str]:
    asked = {"verb": right.verb, "resource": right.resource, "group": right.group}
    optional = {"subresource": right.subresource, "namespace": right.namespace}
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": asked | {key: value for key, value in optional.items() if value}},
    }
    call = api.call("create", "selfsubjectaccessreviews.authorization.k8s.io")
    answer = api.write(call, "POST", _PATH, body)
    if not answer.ok:
        raise refused(call, answer)
    status = mapping(mapping(decode(call, answer)).get("status"))
    return status.get("allowed") is True, text(status.get("reason"))
