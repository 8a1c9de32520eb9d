"""MetricsReader over the HTTP query API.

Decides how a query travels: by POST, so that its length does not matter, with one deadline for connecting, waiting and
reading, and never more than `at_once` side by side, whoever asks. Refuses redirects (a credential would follow them),
retries (the next cycle is one) and answers without end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlencode

import urllib3

from fleet.adapters.prometheus import Connection, decode
from fleet.adapters.prometheus.errors import bad_answer, document_of, refused, too_large
from fleet.ports import httpread
from fleet.ports.errors import PermanentError, PortError, TemporaryError
from fleet.ports.metrics import Curves, Vector

Answer = TypeVar("Answer")


class PrometheusReader:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._base = connection.url.rstrip("/").removesuffix("/api/v1")
        self._gate = threading.BoundedSemaphore(connection.at_once)
        self._pool = httpread.connections(connection.verify, connection.at_once, connection.timeout)

    def instant(self, expression: str, at: datetime | None = None) -> Vector:
        fields = {"query": expression, "timeout": self._limit()}
        if at is not None:
            fields["time"] = f"{at.timestamp():.3f}"
        return decode.vector(self._ask("query", fields))

    def over(self, expression: str, since: datetime, until: datetime, step: float) -> Curves:
        fields = {
            "query": expression,
            "start": f"{since.timestamp():.3f}",
            "end": f"{until.timestamp():.3f}",
            "step": f"{step:g}",
            "timeout": self._limit(),
            "nocache": "1",  # else VictoriaMetrics moves both ends to multiples of the step
        }
        return decode.curves(self._ask("query_range", fields))

    def instants(self, expressions: Sequence[str]) -> list[Vector]:
        return self._all([lambda text=text: self.instant(text) for text in expressions])  # type: ignore[misc]

    def overs(self, expressions: Sequence[str], since: datetime, until: datetime, step: float) -> list[Curves]:
        return self._all([lambda text=text: self.over(text, since, until, step) for text in expressions])  # type: ignore[misc]

    def _limit(self) -> str:
        return f"{self._connection.timeout:g}s"

    def _all(self, questions: list[Callable[[], Answer]]) -> list[Answer]:
        if len(questions) < 2:
            return [question() for question in questions]
        with ThreadPoolExecutor(min(self._connection.at_once, len(questions)), "metrics") as pool:
            asked = [pool.submit(question) for question in questions]
        return [answer.result() for answer in asked]

    def _ask(self, verb: str, fields: dict[str, str]) -> bytes:
        deadline = time.monotonic() + self._connection.timeout
        if not self._gate.acquire(timeout=self._connection.timeout):
            raise TemporaryError("Other queries to the metrics API are in the way.", code="query_timeout")
        try:
            return self._send(verb, fields, deadline)
        except urllib3.exceptions.NewConnectionError as error:  # a kind of time-out to urllib3
            raise TemporaryError("The metrics API cannot be reached.", code="metrics_unreachable") from error
        except urllib3.exceptions.TimeoutError as error:
            text = f"The metrics API did not answer within {self._connection.timeout:g} s."
            raise TemporaryError(text, code="query_timeout") from error
        except urllib3.exceptions.SSLError as error:
            text = f"The metrics API's certificate is not accepted: {httpread.first_line(error)}."
            raise PermanentError(text, code="metrics_tls") from error
        except urllib3.exceptions.LocationValueError as error:
            raise PermanentError("The address of the metrics API is no address.", code="no_query_api") from error
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            text = f"The metrics API broke off: {httpread.first_line(error)}."
            raise TemporaryError(text, code="metrics_unreachable") from error
        finally:
            self._gate.release()

    def _send(self, verb: str, fields: dict[str, str], deadline: float) -> bytes:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "gzip",
            "Content-Type": "application/x-www-form-urlencoded",
            "User-Agent": "muster",
            **self._connection.headers,
        }
        authorization = self._connection.authorization()
        if authorization:
            headers["Authorization"] = authorization
        response = self._pool.request(
            "POST",
            f"{self._base}/api/v1/{verb}",
            body=urlencode(fields).encode(),
            headers=headers,
            preload_content=False,
            redirect=False,
        )
        body = self._read(response, deadline)
        if response.status == 200:
            return body
        raise refused(response.status, document_of(body), str(response.headers.get("Retry-After", "")))

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        limit = self._connection.max_bytes
        try:
            return httpread.whole(response, limit, deadline)
        except httpread.NotWhole as error:
            raise _not_whole(error.why, limit) from error


def _not_whole(why: httpread.Why, limit: int) -> PortError:
    match why:
        case httpread.Why.TOO_LARGE:
            return too_large(limit)
        case httpread.Why.TOO_SLOW:
            return TemporaryError("The metrics API answers too slowly.", code="query_timeout")
        case httpread.Why.CUT_OFF:
            return TemporaryError("The metrics API's answer was cut off.", code="cut_answer")
        case httpread.Why.UNDECODABLE:
            return bad_answer(b"")
