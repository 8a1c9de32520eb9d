"""One dashboard: bounded requests, answered with JSON.

Decides that a look never takes longer than its patience, whatever each request may take, and in which words a failure
is told. Refuses redirects, retries, writes and to quote a token.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import orjson
import urllib3

from fleet.adapters.ray import Connection
from fleet.ports import httpread
from fleet.ports.errors import MissingRight, NotFound, PermanentError, TemporaryError

AT_ONCE = 1


class Client:
    def __init__(self, connection: Connection) -> None:
        parts = urlsplit(connection.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise PermanentError("The address of the dashboard is no http address.")
        self._connection, self._named = connection, parts
        self._base = _at(connection.url, connection.ip).rstrip("/")
        self._pool = httpread.connections(connection.verify, AT_ONCE, connection.timeout)
        if connection.ip and parts.scheme == "https":
            self._pool.connection_pool_kw |= {"server_hostname": parts.hostname, "assert_hostname": parts.hostname}

    @property
    def name(self) -> str:
        """Whom people know it by: host and port."""
        return self._named.netloc.rpartition("@")[2]

    def get(self, path: str, until: float) -> Any:
        """The decoded answer. Raises `fleet.ports.errors`; `until` is of the monotonic clock."""
        return self.decoded(*self.fetch(path, until), path)

    def decoded(self, status: int, body: bytes, path: str) -> Any:
        if status == 404:
            raise NotFound(f"The dashboard at {self.name} knows no {_bare(path)}.")
        if status >= 400:
            raise TemporaryError(f"The dashboard at {self.name} refused {_bare(path)} (HTTP {status}).")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            words = f"The dashboard at {self.name} answered {_bare(path)} with no JSON."
            raise TemporaryError(words) from error

    def fetch(self, path: str, until: float) -> tuple[int, bytes]:
        """Status and body; what says that we are not let in, or elsewhere, is raised."""
        left = until - time.monotonic()
        if left <= 0:
            raise TemporaryError(f"The dashboard at {self.name} is too slow for one look.")
        timeout = min(self._connection.timeout, left)
        try:
            response = self._pool.request(
                "GET", self._base + path, headers=self._headers(), preload_content=False, redirect=False,
                timeout=urllib3.Timeout(connect=min(httpread.CONNECT_SECONDS, timeout), read=timeout),
            )  # fmt: skip
            body = httpread.whole(response, self._connection.max_bytes, time.monotonic() + timeout)
        except urllib3.exceptions.NewConnectionError as error:
            words = f"The dashboard at {self.name} cannot be reached."
            raise TemporaryError(words) from error
        except urllib3.exceptions.SSLError as error:
            words = f"The certificate of {self.name} is not accepted: {httpread.first_line(error)}."
            raise PermanentError(words) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, httpread.NotWhole) as error:
            words = f"The dashboard at {self.name} did not answer {_bare(path)} whole within {timeout:.1f} s."
            raise TemporaryError(words) from error
        if response.status in (401, 403):
            raise MissingRight("read", "dashboard", f"The dashboard at {self.name} wants a token that it knows.")
        if 300 <= response.status < 400:
            raise PermanentError(f"The dashboard at {self.name} sends us elsewhere.")
        return response.status, body

    def _headers(self) -> dict[str, str]:
        headers = {"User-Agent": "muster", "Accept": "application/json", "Host": self.name}
        if self._connection.token:
            headers["Authorization"] = f"Bearer {self._connection.token}"
        return headers


def _at(url: str, ip: str) -> str:
    if not ip:
        return url
    parts = urlsplit(url)
    host = f"[{ip}]" if ":" in ip else ip
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return urlunsplit((parts.scheme, f"{host}:{port}", parts.path, "", ""))


def _bare(path: str) -> str:
    return path.partition("?")[0]
