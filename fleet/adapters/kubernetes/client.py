"""One API server with one credential: raw requests with time-outs, decoded by orjson.

Decides time-outs and when a read is tried once more (a connection that the server had closed while idle, a rotated
credential). Refuses to repeat a write, and the vendor's typed models, which are too slow in bulk.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
import urllib3
from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException

from fleet.adapters.kubernetes.credentials import connect
from fleet.adapters.kubernetes.errors import Answer, Call, broken, refused
from fleet.adapters.kubernetes.silence import Silence
from fleet.adapters.kubernetes.wire import Cutter
from fleet.ports.errors import PortError, TemporaryError

CONNECT_SECONDS = 5.0
READ_SECONDS = 8.0
"""Of one object or a few: a worker's lease on its workflow is 10 s, and what ends later than that is not recorded."""
PAGE_SECONDS = 30.0
WRITE_SECONDS = 8.0
RELOAD_SECONDS = 10.0
MAX_ANSWER = 512 << 20  # a page of five hundred objects has a thousandth of it
MERGE_PATCH = "application/merge-patch+json"
JSON = "application/json"
ACCEPTED = "application/json, */*;q=0.5"  # logs are plain text


class ApiServer:
    """Paths in, decoded JSON out. Thread-safe: the pool hands each thread a connection of its own."""

    def __init__(self, kubeconfig: str | None, context: str | None, allow_exec: frozenset[str]) -> None:
        self._source = (kubeconfig, context, allow_exec)
        self._lock = threading.Lock()
        self._client: ApiClient = connect(*self._source)
        self._loaded_at = time.monotonic()
        self.address: str = str(self._client.configuration.host)
        self._silence = Silence()

    def get(
        self,
        path: str,
        resource: str,
        *,
        verb: str = "get",
        params: Mapping[str, str] | None = None,
        seconds: float | None = None,
    ) -> Any:
        call = Call(self.address, verb, resource)
        answer = self._exchange(call, "GET", path, params, None, seconds or READ_SECONDS)
        if not answer.ok:
            raise refused(call, answer)
        return decode(call, answer)

    def text(self, path: str, resource: str, params: Mapping[str, str]) -> str:
        """The body as it is: logs are no JSON, and need not be UTF-8."""
        call = Call(self.address, "get", resource)
        answer = self._exchange(call, "GET", path, params, None, READ_SECONDS)
        if not answer.ok:
            raise refused(call, answer)
        return answer.body.decode("utf-8", "replace")

    def write(self, call: Call, method: str, path: str, body: Any, content_type: str = JSON) -> Answer:
        """One write, sent once. The caller judges the answer (evictions overload status codes)."""
        return self._exchange(call, method, path, None, body, WRITE_SECONDS, content_type)

    def call(self, verb: str, resource: str) -> Call:
        return Call(self.address, verb, resource, write=True)

    @contextmanager
    def stream(
        self, call: Call, path: str, params: Mapping[str, str], cutter: Cutter
    ) -> Iterator[urllib3.HTTPResponse]:
        """An open response whose body is read by the caller and ended by the cutter; refused statuses raise."""
        with cutter.following():
            response = self._send(call, "GET", path, params, None, (CONNECT_SECONDS, READ_SECONDS), JSON)
        try:
            if response.status != 200:
                raise refused(call, self._complete(call, response, time.monotonic() + WRITE_SECONDS))
            yield response
        finally:
            response.close()

    def websocket(self, path: str, params: Sequence[tuple[str, str]]) -> tuple[Any, str, dict[str, str]]:
        """Configuration, address and headers of a request that is to become a WebSocket."""
        client = self._client
        _method, url, headers, *_ = client.param_serialize(
            "GET", path, query_params=list(params), header_params={}, auth_settings=["BearerToken"]
        )
        return client.configuration, url, headers

    def _exchange(
        self,
        call: Call,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Any,
        seconds: float,
        content_type: str = JSON,
    ) -> Answer:
        ends_at = time.monotonic() + seconds
        for last in (False, True):
            try:
                with self._silence.asking(call):
                    response = self._send(call, method, path, params, body, (CONNECT_SECONDS, seconds), content_type)
                    answer = self._complete(call, response, ends_at)
            except TemporaryError as error:
                if last or call.write or error.code != "api_cut" or time.monotonic() > ends_at:
                    raise
                continue
            if answer.status == 401 and not last and self._reload():
                continue
            return answer
        raise AssertionError("unreachable")

    def _send(
        self,
        call: Call,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        body: Any,
        timeouts: tuple[float, float],
        content_type: str,
    ) -> urllib3.HTTPResponse:
        client = self._client
        headers = {"Accept": ACCEPTED}
        if body is not None:
            headers["Content-Type"] = content_type
        try:
            request = client.param_serialize(
                method,
                path,
                query_params=list((params or {}).items()),
                header_params=headers,
                body=body,
                auth_settings=["BearerToken"],
            )
            response: urllib3.HTTPResponse = client.call_api(*request, _request_timeout=timeouts).response
        except (ApiException, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise broken(call, error) from error
        return response

    def _complete(self, call: Call, response: urllib3.HTTPResponse, ends_at: float) -> Answer:
        parts: list[bytes] = []
        size = 0
        try:
            while part := response.read1(1 << 17):
                parts.append(part)
                size += len(part)
                if size > MAX_ANSWER:
                    response.close()
                    raise OSError(f"the answer has more than {MAX_ANSWER >> 20} MiB")
                if time.monotonic() > ends_at:
                    response.close()
                    raise TimeoutError("the answer did not end in time")
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            response.close()
            raise broken(call, error) from error
        response.release_conn()
        return Answer(response.status, response.headers, b"".join(parts))

    def _reload(self) -> bool:
        """Read the credential again after a 401: tokens and kubeconfigs rotate. At most once in RELOAD_SECONDS."""
        with self._lock:
            if time.monotonic() - self._loaded_at < RELOAD_SECONDS:
                return False
            self._loaded_at = time.monotonic()
            try:
                fresh = connect(*self._source)
            except PortError:
                return False
            self._client = fresh
            return True


def decode(call: Call, answer: Answer) -> Any:
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        text = f"{call.server} answered {call.verb} {call.resource} with something that is not JSON."
        raise TemporaryError(text, code="api_garbage") from error
