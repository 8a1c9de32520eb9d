"""The API server's failures in the port's taxonomy, with sentences that name server, verb and resource.

Decides which failures are permanent, temporary or of unknown outcome. Refuses to guess success: a write that may have
reached the server and has no clear answer is an UnknownOutcome.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from urllib3 import exceptions as wire

from fleet.ports.errors import (
    Conflict,
    EvictionBlocked,
    MissingRight,
    NotFound,
    PermanentError,
    PortError,
    ResyncNeeded,
    TemporaryError,
    UnknownOutcome,
)
from fleet.ports.shapes import items, mapping

_CANNOT = re.compile(r'cannot (\S+) resource "([^"]+)"')
_UID = re.compile(r"\bUID\b")
"""In capitals and by itself, as only the server writes it: `uid` is in names too, `druid-0` among them."""
_ADMISSION = re.compile(
    r"admission webhook .* denied the request|failed calling webhook|ValidatingAdmissionPolicy .* denied request"
)
_BUDGET = re.compile(r"[Dd]isruption budget (\S+?)[ .,](?:needs|is|does)")
NO_ANSWER = ("api_unreachable", "api_timeout")
"""Nobody was reached, or nobody spoke in time. A write without an answer says less: it may be that write alone."""
_BEFORE_SENDING = (wire.NewConnectionError, wire.ConnectTimeoutError, wire.ProxyError, wire.LocationValueError)


@dataclass(frozen=True, slots=True)
class Call:
    """What was asked, for sentences: `verb` and `resource` as RBAC names them."""

    server: str
    verb: str
    resource: str
    write: bool = False

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} at {self.server}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete response. `headers` are looked up without regard to case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    parsed: list[Any] = field(default_factory=list, compare=False, repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def status_object(self) -> dict[str, Any]:
        """The Status the API server sends with a refusal; {} when the body is something else (a proxy's page)."""
        if not self.parsed:
            try:
                self.parsed.append(orjson.loads(self.body))
            except orjson.JSONDecodeError:
                self.parsed.append({})
        return mapping(self.parsed[0])

    @property
    def message(self) -> str:
        said = self.status_object().get("message")
        if isinstance(said, str) and said:
            return said[:500]
        return self.body[:200].decode("utf-8", "replace").strip()

    @property
    def reason(self) -> str:
        return str(self.status_object().get("reason") or "")

    @property
    def causes(self) -> list[dict[str, Any]]:
        return items(mapping(self.status_object().get("details")).get("causes"))

    @property
    def retry_after(self) -> float | None:
        """Seconds the server asks to wait, from the header or the Status."""
        hints = [self.headers.get("Retry-After"), mapping(self.status_object().get("details")).get("retryAfterSeconds")]
        for hint in hints:
            try:
                if hint is not None and float(hint) > 0:
                    return min(float(hint), 3600.0)
            except (TypeError, ValueError):
                continue
        return None


def refused(call: Call, answer: Answer) -> PortError:
    """The PortError for a response that is not 2xx."""
    status, said = answer.status, answer.message
    if status == 401:
        return PermanentError(
            f"{call.server} refuses the credential (401 Unauthorized): it is expired, revoked or of another cluster. "
            f"It was used to {call.verb} {call.resource}.",
            code="credential_refused",
        )
    if status == 403 and not _ADMISSION.search(said):
        return missing_right(call, said)
    if status == 404:
        return NotFound(f"{call.server} has no such object or API ({call.verb} {call.resource}): {said}")
    if status == 409:
        code = "already_exists" if answer.reason == "AlreadyExists" else None
        return Conflict(f"The object changed meanwhile ({call}): {said}", code=code)
    if status == 410:
        return ResyncNeeded(f"{call.server} no longer has the history asked for ({call.verb} {call.resource}): {said}")
    if status == 429:
        text = f"{call.server} is throttling requests (429, {call.verb} {call.resource})."
        return TemporaryError(text, code="throttled", retry_after=answer.retry_after)
    if status >= 500:
        return _server_failed(call, answer)
    text = f"{call.server} refuses to {call.verb} {call.resource} ({status}): {said}"
    return PermanentError(text, code="api_refused")


def missing_right(call: Call, said: str) -> MissingRight:
    """403: the verb and resource of the Status message are more exact than those of the call."""
    found = _CANNOT.search(said)
    verb, resource = found.groups() if found else (call.verb, call.resource)
    return MissingRight(verb, resource, f"The credential may not {verb} {resource} at {call.server}: {said}")


def eviction_refused(call: Call, answer: Answer, namespace: str) -> PortError:
    """Evictions overload 429 (budget or throttling), 409 (another pod of that name) and 500 (two budgets).

    Webhooks that look after a kind of pod answer with any of them; what admission refused has not been done.
    """
    said = answer.message
    if answer.status == 429 and names_budget(answer):
        budget = budget_of(answer)
        text = f"The PodDisruptionBudget {namespace}/{budget or '?'} refuses the eviction: {_detail(answer)}"
        return EvictionBlocked(text, budget=f"{namespace}/{budget}" if budget else "", retry_after=answer.retry_after)
    if answer.status == 409 and _UID.search(said):
        return NotFound(f"The pod to evict is gone and another one has its name ({call.server}): {said}")
    if answer.status == 500 and "more than one PodDisruptionBudget" in said:
        return PermanentError(f"The pod cannot be evicted until a person removes a budget: {said}", code="pdb_many")
    if answer.status == 403 and _namespace_ends(answer):
        return TemporaryError(f"The pod's namespace is being deleted: {said}", code="namespace_terminating")
    if _ADMISSION.search(said):
        return TemporaryError(f"Admission refuses the eviction: {said}", code="eviction_denied")
    return refused(call, answer)


def _namespace_ends(answer: Answer) -> bool:
    """By its cause, or (before Kubernetes 1.15) by its words alone."""
    if any(cause.get("reason") == "NamespaceTerminating" for cause in answer.causes):
        return True
    return "because it is being terminated" in answer.message


def names_budget(answer: Answer) -> bool:
    if any(cause.get("reason") == "DisruptionBudget" for cause in answer.causes):
        return True
    return "disruption budget" in answer.message.lower()


def budget_of(answer: Answer) -> str:
    for text in [str(cause.get("message", "")) for cause in answer.causes] + [answer.message]:
        found = _BUDGET.search(text)
        if found:
            return found.group(1).strip("\"'").rpartition("/")[2]
    return ""


def _detail(answer: Answer) -> str:
    texts = [str(cause["message"]) for cause in answer.causes if cause.get("message")]
    return texts[0] if texts else answer.message


def _server_failed(call: Call, answer: Answer) -> PortError:
    text = f"{call.server} failed ({answer.status}, {call.verb} {call.resource}): {answer.message}"
    if call.write:
        return UnknownOutcome(text)
    return TemporaryError(text, code="api_error", retry_after=answer.retry_after)


def broken(call: Call, error: Exception) -> PortError:
    """The PortError for an exchange that ended without a complete response."""
    cause: BaseException = error.reason if isinstance(error, wire.MaxRetryError) and error.reason else error
    text = _one_line(cause)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return PermanentError(
            f"The certificate of {call.server} is not trusted ({text}): check certificate-authority in the kubeconfig.",
            code="api_certificate",
        )
    if isinstance(cause, _BEFORE_SENDING):
        said = f"{call.server} cannot be reached ({call.verb} {call.resource}): {text}"
        return TemporaryError(said, code="api_unreachable")
    if call.write:
        return UnknownOutcome(f"{call.server} gave no answer to {call.verb} {call.resource}: {text}")
    code = "api_timeout" if isinstance(cause, (wire.TimeoutError, TimeoutError)) else "api_cut"
    return TemporaryError(f"{call.server} gave no complete answer to {call.verb} {call.resource}: {text}", code=code)


def _one_line(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
