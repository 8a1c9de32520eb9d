"""One Ironic API: requests with a deadline, sent once, and what their failures mean.

Decides the taxonomy: a write without an answer has an unknown outcome, 409 is a locked or changed node, 400 to a change
of state says that the state has changed. Refuses redirects, retries, answers without end, and to quote a credential.
"""

from __future__ import annotations

import json
import time
from typing import Any

import urllib3

from fleet.adapters.ironic import Connection
from fleet.ports import httpread
from fleet.ports.errors import (
    Conflict,
    MissingRight,
    NotFound,
    PermanentError,
    PortError,
    TemporaryError,
    UnknownOutcome,
)

VERSION = "1.81"  # Ironic of 2023.1: the inventory of a node
MAX_BODY = 16 << 20
AT_ONCE = 2  # requests to one Ironic
Json = dict[str, Any]


class IronicClient:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.base = connection.url.rstrip("/").removesuffix("/v1")
        self._pool = httpread.connections(connection.verify, AT_ONCE, connection.timeout)

    def get(self, path: str, params: dict[str, str] | None = None) -> Json:
        return self._send("GET", path, None, params)

    def put(self, path: str, body: Json) -> None:
        self._send("PUT", path, body, None)

    def _send(self, method: str, path: str, body: Json | None, params: dict[str, str] | None) -> Json:
        writes = method != "GET"
        deadline = time.monotonic() + self._connection.timeout
        try:
            response = self._pool.request(
                method,
                f"{self.base}/v1{path}",
                body=None if body is None else json.dumps(body).encode(),
                fields=params if not writes else None,
                headers=self._headers(),
                preload_content=False,
                redirect=False,
            )
            answered = httpread.whole(response, MAX_BODY, deadline)
        except urllib3.exceptions.NewConnectionError as error:
            raise TemporaryError(f"Ironic at {self.base} cannot be reached.", code="provider_unreachable") from error
        except urllib3.exceptions.SSLError as error:
            text = f"The certificate of Ironic at {self.base} is not accepted."
            raise PermanentError(text, code="provider_certificate") from error
        except (urllib3.exceptions.HTTPError, httpread.NotWhole, OSError, ValueError) as error:
            why = error.why if isinstance(error, httpread.NotWhole) else type(error).__name__
            text = f"Ironic at {self.base} gave no answer to {method} {path}: {why}."
            raise UnknownOutcome(text) if writes else TemporaryError(text, code="provider_timeout") from error
        if not 200 <= response.status < 300:
            raise refused(self.base, f"{method} {path}", writes, response.status, answered)
        return self._decoded(answered, writes)

    def _headers(self) -> dict[str, str]:
        headers = {
            "Accept": "application/json",
            "Content-Type": "application/json",
            "X-OpenStack-Ironic-API-Version": VERSION,
        }
        secret = self._connection.authorization()
        if secret.startswith("Bearer "):
            headers["X-Auth-Token"] = secret.removeprefix("Bearer ")
        elif secret:
            headers["Authorization"] = secret
        return headers

    def _decoded(self, body: bytes, writes: bool) -> Json:
        if writes:
            return {}
        try:
            found = json.loads(body)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise TemporaryError(f"Ironic at {self.base} answered what cannot be understood.", code="provider_garbage")
        return found


def refused(base: str, call: str, writes: bool, status: int, body: bytes) -> PortError:
    """The PortError for a status that is not 2xx."""
    said = _said(body)
    text = f"Ironic at {base} answers {status} to {call}: {said}"
    if status == 401:
        return PermanentError(f"Ironic at {base} refuses the credential (401).", code="provider_credential")
    if status == 403:
        return MissingRight(call.partition(" ")[0].lower(), "nodes", f"The credential may not {call}: {said}")
    if status == 404:
        return NotFound(text)
    if status == 406:
        return PermanentError(f"{text} It must speak API version {VERSION}.", code="provider_version")
    if status == 409 or (status == 400 and writes):
        return Conflict(text, code="provider_locked" if status == 409 else "provision_state")
    if status in (429, 503):
        return TemporaryError(text, code="provider_busy", retry_after=15)
    if status >= 500:
        return UnknownOutcome(text) if writes else TemporaryError(text, code="provider_error")
    return PermanentError(text, code="provider_refused")


def _said(body: bytes) -> str:
    """The sentence of an error, which Ironic packs into JSON within JSON."""
    try:
        message = json.loads(body).get("error_message", "")
        if isinstance(message, str) and message.startswith("{"):
            message = json.loads(message)
        found = message.get("faultstring", "") if isinstance(message, dict) else message
    except (ValueError, AttributeError):
        found = body[:200].decode("utf-8", "replace")
    return " ".join(str(found).split())[:300] or "no message"
