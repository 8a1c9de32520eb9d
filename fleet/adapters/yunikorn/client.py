"""One YuniKorn: bounded requests, answered with JSON.

Decides in which words a failure is told. Refuses redirects, retries and writes.
"""

from __future__ import annotations

import time
from typing import Any

import orjson
import urllib3

from fleet.adapters.yunikorn import Connection
from fleet.ports import httpread
from fleet.ports.errors import MissingRight, NotFound, PermanentError, TemporaryError

AT_ONCE = 1


class Client:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._base = connection.url.rstrip("/").removesuffix("/ws/v1")
        self._pool = httpread.connections(connection.verify, AT_ONCE, connection.timeout)

    def get(self, path: str) -> Any:
        """The decoded answer of `/ws/v1/PATH`. Raises `fleet.ports.errors`."""
        status, body = self._fetch(f"/ws/v1/{path}")
        if status in (401, 403):
            raise MissingRight("read", "YuniKorn", f"YuniKorn at {self._base} lets us read nothing (HTTP {status}).")
        if status == 404:
            raise NotFound(f"YuniKorn at {self._base} knows no {path}.")
        if 300 <= status < 400:
            raise PermanentError(f"YuniKorn at {self._base} sends us elsewhere.")
        if status >= 400:
            raise TemporaryError(f"YuniKorn at {self._base} refused {path} (HTTP {status}).")
        try:
            return orjson.loads(body)
        except orjson.JSONDecodeError as error:
            raise TemporaryError(f"YuniKorn at {self._base} answered {path} with no JSON.") from error

    def _fetch(self, path: str) -> tuple[int, bytes]:
        connection = self._connection
        headers, deadline = {"User-Agent": "muster", "Accept": "application/json"}, time.monotonic()
        try:
            response = self._pool.request(
                "GET", self._base + path, headers=headers, preload_content=False, redirect=False
            )
            return response.status, httpread.whole(response, connection.max_bytes, deadline + connection.timeout)
        except urllib3.exceptions.NewConnectionError as error:
            raise TemporaryError(f"YuniKorn at {self._base} cannot be reached.") from error
        except urllib3.exceptions.SSLError as error:
            words = f"The certificate of {self._base} is not accepted: {httpread.first_line(error)}."
            raise PermanentError(words) from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError, httpread.NotWhole) as error:
            words = f"YuniKorn at {self._base} did not answer {path} whole within {connection.timeout:g} s."
            raise TemporaryError(words) from error
