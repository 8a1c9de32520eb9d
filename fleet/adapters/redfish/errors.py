"""A BMC's failures in the port's taxonomy.

Decides what a failure means: unreachable, distrusted, refused, busy, failing, or of unknown outcome once a reset had
left. Refuses to repeat anything that could hold a secret: sentences name the address and the failure only.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator
from json import JSONDecodeError

import requests
from sushy import exceptions as sushy
from urllib3 import exceptions as wire

from fleet.adapters.redfish.session import OutOfTime
from fleet.ports.errors import PermanentError, PortError, TemporaryError, UnknownOutcome
from fleet.ports.power import BmcTarget

_NOT_READY = re.compile(
    r"SYS518|InvalidOperationForSystemState|not ready|ResourceInUse|ServiceTemporarilyUnavailable", re.I
)
_BEFORE_SENDING = (wire.NewConnectionError, wire.ConnectTimeoutError, wire.LocationValueError)


def translate(target: BmcTarget, error: Exception, post_sent: bool) -> PortError:
    """The PortError for whatever a conversation raised."""
    if isinstance(error, PortError):
        return error
    if isinstance(error, sushy.HTTPError):
        return _answered(target, error, post_sent)
    causes = list(_causes(error))
    if any(isinstance(cause, (ssl.SSLError, wire.SSLError, requests.exceptions.SSLError)) for cause in causes):
        return _distrusted(target, causes)
    if any(isinstance(cause, requests.exceptions.TooManyRedirects) for cause in causes):
        return PermanentError(
            f"The {_bmc(target)} redirects: {error}. Give the address it really has.", code="bmc_redirect"
        )
    if post_sent:
        return UnknownOutcome(f"The {_bmc(target)} gave no answer after the reset was sent: {_reason(causes)}")
    if _bundle_missing(causes):
        return PermanentError(
            f"The CA bundle {target.verify} for the {_bmc(target)} cannot be read.", code="bmc_certificate"
        )
    if any(isinstance(cause, _BEFORE_SENDING) for cause in causes):
        return TemporaryError(f"The {_bmc(target)} cannot be reached: {_reason(causes)}", code="bmc_unreachable")
    if any(isinstance(cause, (OutOfTime, TimeoutError, wire.TimeoutError)) for cause in causes):
        return TemporaryError(f"The {_bmc(target)} did not answer in time: {_reason(causes)}", code="bmc_timeout")
    if any(isinstance(cause, JSONDecodeError) for cause in causes):
        return _nonsense(target, causes)
    if isinstance(error, sushy.ConnectionError) or any(isinstance(cause, OSError) for cause in causes):
        return TemporaryError(f"The {_bmc(target)} broke the connection: {_reason(causes)}", code="bmc_unreachable")
    return _nonsense(target, causes)


def _nonsense(target: BmcTarget, causes: list[BaseException]) -> PortError:
    return TemporaryError(f"The {_bmc(target)} answered what cannot be understood: {_reason(causes)}", code="bmc_error")


def _answered(target: BmcTarget, error: sushy.HTTPError, post_sent: bool) -> PortError:
    status = error.status_code or 0
    said = _said(error)
    if status in (401, 403):
        return PermanentError(f"The {_bmc(target)} refuses the credential ({status}).", code="bmc_credential")
    if status in (409, 429, 503) or (status == 400 and _NOT_READY.search(f"{error.code} {said} {error.extended_info}")):
        return TemporaryError(f"The {_bmc(target)} is busy ({status}): {said}", code="bmc_busy")
    if status == 501:
        return PermanentError(
            f"The {_bmc(target)} does not implement this ({status}): {said}", code="reset_unsupported"
        )
    if status in (502, 504) and post_sent:
        return UnknownOutcome(f"A gateway answered for the {_bmc(target)} after the reset was sent ({status}): {said}")
    if status >= 500:
        return TemporaryError(f"The {_bmc(target)} failed with {status}: {said}", code="bmc_error")
    if status == 404:
        return PermanentError(
            f"The {_bmc(target)} has no Redfish service or system there (404): {said}", code="bmc_not_found"
        )
    return PermanentError(f"The {_bmc(target)} refuses ({status}): {said}", code="bmc_refused")


def _distrusted(target: BmcTarget, causes: list[BaseException]) -> PortError:
    text = " ".join(str(cause) for cause in causes)
    trusted = target.verify if isinstance(target.verify, str) else "the system's trust store"
    if "CERTIFICATE_VERIFY_FAILED" in text or "certificate" in text.lower():
        return PermanentError(
            f"The certificate of the {_bmc(target)} is not trusted by {trusted} ({_reason(causes)}). "
            "Set `ca` of this BMC in the inventory to a file with the certificate's issuer.",
            code="bmc_certificate",
        )
    return PermanentError(
        f"The {_bmc(target)} does not speak TLS as expected: {_reason(causes)}", code="bmc_certificate"
    )


def _bundle_missing(causes: list[BaseException]) -> bool:
    return any(isinstance(cause, OSError) and "CA certificate bundle" in str(cause) for cause in causes)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The failure and everything it wraps: libraries hide the first cause in args, reason, cause or context."""
    pending: list[object] = [error]
    seen: set[int] = set()
    while pending:
        current = pending.pop(0)
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        pending += [getattr(current, "reason", None), *current.args, current.__cause__, current.__context__]


def _reason(causes: list[BaseException]) -> str:
    """The innermost cause, on one short line."""
    last = causes[-1]
    text = str(getattr(last, "strerror", None) or last) or type(last).__name__
    return " ".join(text.split())[:200]


def _said(error: sushy.HTTPError) -> str:
    return " ".join(str(error.detail or error.code or "no detail").split())[:200]


def _bmc(target: BmcTarget) -> str:
    return f"BMC of {target.node} at {target.address}"
