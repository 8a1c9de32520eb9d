"""How the API server says no: Status objects with the reasons and codes clients branch on.

It decides the shape of refusals. It refuses to guess at the cause: whoever raises one states it.
"""

from typing import Any

import orjson

from fleet.simulator.kube.kinds import Kind


class ApiError(Exception):
    """A refusal that becomes the response."""

    def __init__(self, code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> dict[str, Any]:
        body: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            body["details"] = self.details
        return body

    def body(self) -> bytes:
        return orjson.dumps(self.status())

    @property
    def retry_after(self) -> int:
        return int((self.details or {}).get("retryAfterSeconds", 0))


def details(kind: Kind, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {"name": name} if name else {}
    if kind.group:
        found["group"] = kind.group
    return found | {"kind": kind.plural}


def not_found(kind: Kind, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{kind.qualified} "{name}" not found', details(kind, name))


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(kind: Kind, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{kind.qualified} "{name}" already exists', details(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> ApiError:
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    text = f'Operation cannot be fulfilled on {kind.qualified} "{name}": {why}'
    return ApiError(409, "Conflict", text, details(kind, name))


def invalid(kind: Kind, name: str, causes: list[tuple[str, str, str]]) -> ApiError:
    """Each cause is (field, reason, message)."""
    spelled = [f"{field}: {message}" for field, _, message in causes]
    joined = spelled[0] if len(spelled) == 1 else "[" + ", ".join(spelled) + "]"
    about = details(kind, name) | {"kind": kind.kind}
    about["causes"] = [{"reason": reason, "message": message, "field": field} for field, reason, message in causes]
    full = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    return ApiError(422, "Invalid", f'{full} "{name}" is invalid: {joined}', about)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def expired(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def forbidden(user: str, verb: str, kind: Kind, sub: str, namespace: str, name: str) -> ApiError:
    resource = f"{kind.plural}/{sub}" if sub else kind.plural
    where = f'in the namespace "{namespace}"' if namespace else "at the cluster scope"
    subject = f'{kind.qualified} "{name}"' if name else kind.qualified
    text = (
        f'{subject} is forbidden: User "{user}" cannot {verb} resource "{resource}" in API group "{kind.group}" {where}'
    )
    return ApiError(403, "Forbidden", text, details(kind, name))


def method_not_allowed() -> ApiError:
    text = "the server does not allow this method on the requested resource"
    return ApiError(405, "MethodNotAllowed", text, {})
