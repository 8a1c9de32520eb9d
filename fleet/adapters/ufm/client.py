"""FabricReader over UFM's REST API and the text endpoints beside it.

Decides how a request travels: by GET, with one deadline for connecting, waiting and reading. Refuses redirects (the
credential would follow them, and a UFM sends whoever is not logged in to its page), retries (the next reading is one)
and answers without end. Nothing that is sent is ever quoted.
"""

from __future__ import annotations

import time

import urllib3

from fleet.adapters.ufm import Connection, decode
from fleet.ports import httpread
from fleet.ports.errors import MissingRight, PermanentError, PortError, TemporaryError
from fleet.ports.fabric import AlarmsSeen, LinksSeen

AT_ONCE = 2  # requests to one UFM
LINKS, PORTS, ALARMS = (f"/ufmRest/{path}" for path in ("resources/links", "resources/ports", "app/alarms"))


class UfmReader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._base = connection.url.rstrip("/").removesuffix("/ufmRest")
        self._pool = httpread.connections(connection.verify, AT_ONCE, connection.timeout)

    def links(self) -> LinksSeen:
        """All links. Older versions tell no names with them: then the list of ports is asked as well."""
        found = decode.links(self._api(LINKS))
        if all(end.name for link in found.links for end in link):
            return found
        return decode.named(found, decode.names_of_ports(self._api(PORTS)))

    def alarms(self) -> AlarmsSeen:
        return decode.alarms(self._api(ALARMS))

    def telemetry(self) -> bytes:
        return self._get(self._connection.telemetry, {"Accept": "text/plain"})

    def sharp(self) -> bytes:
        return self._get(self._connection.sharp, {"Accept": "text/plain"})

    def _api(self, path: str) -> bytes:
        headers = {"Accept": "application/json", "Accept-Encoding": "gzip"}
        authorization = self._connection.authorization()
        if authorization:
            headers["Authorization"] = authorization
        return self._get(self._base + path, headers)

    def _get(self, url: str, headers: dict[str, str]) -> bytes:
        deadline = time.monotonic() + self._connection.timeout
        try:
            response = self._pool.request(
                "GET", url, headers={"User-Agent": "muster", **headers}, preload_content=False, redirect=False
            )
            body = self._read(response, deadline)
        except urllib3.exceptions.NewConnectionError as error:  # a kind of time-out to urllib3
            raise TemporaryError("cannot be reached", code="fabric_unreachable") from error
        except urllib3.exceptions.TimeoutError as error:
            text = f"did not answer within {self._connection.timeout:g} s"
            raise TemporaryError(text, code="fabric_timeout") from error
        except urllib3.exceptions.SSLError as error:
            raise PermanentError(
                f"its certificate is not accepted: {httpread.first_line(error)}", code="fabric_tls"
            ) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise TemporaryError(f"broke off: {type(error).__name__}", code="fabric_unreachable") from error
        if response.status == 200:
            return body
        raise refused(response.status)

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        limit = self._connection.max_bytes
        try:
            return httpread.whole(response, limit, deadline)
        except httpread.NotWhole as error:
            raise _not_whole(error.why, limit) from error


def refused(status: int) -> PortError:
    """The error for an HTTP status. The body of a refusal is a page for people and is not read."""
    if status == 401 or status in (301, 302, 303, 307, 308):
        return PermanentError(f"did not accept the credential (HTTP {status})", code="fabric_credential")
    if status == 403:
        return MissingRight("read", "the fabric", "the credential may not read this (HTTP 403)")
    if status == 404:
        return PermanentError("there is no such API at this address (HTTP 404)", code="no_fabric_api")
    if status in (408, 429) or status >= 500:
        return TemporaryError(f"cannot answer now (HTTP {status})", code="fabric_unavailable")
    return PermanentError(f"refused the request (HTTP {status})", code="fabric_refused")


def _not_whole(why: httpread.Why, limit: int) -> PortError:
    match why:
        case httpread.Why.TOO_LARGE:
            return PermanentError(f"answered more than {limit >> 20} MiB", code="too_large")
        case httpread.Why.TOO_SLOW:
            return TemporaryError("answers too slowly", code="fabric_timeout")
        case httpread.Why.CUT_OFF:
            return TemporaryError("its answer was cut off", code="cut_answer")
        case httpread.Why.UNDECODABLE:
            return decode.bad_answer()
