"""What a query API's failures mean.

Decides which of them a person must mend (credential, address, expression, limit) and which pass. Refuses to quote more
of a foreign answer than a line, and never quotes what was sent.
"""

from __future__ import annotations

from typing import Any

import orjson

from fleet.ports.errors import MissingRight, PermanentError, PortError, TemporaryError

_BAD_QUERY = {"bad_data", "execution", "not_acceptable", "422"}
MAX_WAIT = 300.0


def bad_answer(body: bytes) -> TemporaryError:
    """Something answered with success that is no query API, or not a whole one."""
    start = " ".join(body[:120].decode("utf-8", "replace").split())[:60]
    what = f"It begins with {start!r}." if start else "It is empty."
    return TemporaryError(f"The metrics API gave no answer of the query API. {what}", code="bad_answer")


def too_large(limit: int) -> PermanentError:
    return PermanentError(
        f"The metrics API answered more than {limit >> 20} MiB: the query selects too much.", code="too_large"
    )


def refused(status: int, document: dict[str, Any] | None, retry_after: str = "") -> PortError:
    """The error for an HTTP status and the body's errorType."""
    kind = str((document or {}).get("errorType") or "")
    said = " ".join(str((document or {}).get("error") or "").split())[:300]
    tail = f": {said}" if said else "."
    if status == 401:
        return PermanentError("The metrics API did not accept the credential (HTTP 401).", code="metrics_credential")
    if status == 403:
        return MissingRight("query", "metrics", f"The credential may not query the metrics API (HTTP 403){tail}")
    if kind in _BAD_QUERY or status == 422 or (status == 400 and kind):
        return PermanentError(f"The metrics API refused the query{tail}", code="bad_query")
    if status == 404:
        return PermanentError("There is no query API at this address (HTTP 404).", code="no_query_api")
    if 300 <= status < 400:
        text = f"The metrics API sends us elsewhere (HTTP {status}): give its final address."
        return PermanentError(text, code="no_query_api")
    if kind in ("timeout", "canceled"):
        return TemporaryError(f"The query took too long{tail}", code="query_timeout", retry_after=_wait(retry_after))
    if status in (408, 429) or status >= 500 or status == 200:
        text = f"The metrics API cannot answer now (HTTP {status}){tail}"
        return TemporaryError(text, code="metrics_unavailable", retry_after=_wait(retry_after))
    return PermanentError(f"The metrics API refused the request (HTTP {status}){tail}", code="metrics_refused")


def document_of(body: bytes) -> dict[str, Any] | None:
    """The error document, where the refusal came from the API itself and not from a proxy."""
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None


def _wait(text: str) -> float | None:
    return min(float(text), MAX_WAIT) if text.isdecimal() else None
