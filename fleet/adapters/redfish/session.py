"""One bounded conversation with one BMC: every socket of it is ended when its time is up.

Decides when the conversation is over, whatever the peer does (refuses, hangs, drips bytes, never ends a header), and
how much of an answer is read. The caller's thread never touches the network: it waits for the worker with a limit.
Refuses to let a reset out late: after the deadline no socket of the conversation may send.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

import requests
from requests.adapters import HTTPAdapter
from sushy import auth as sushy_auth
from sushy.connector import Connector
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

Result = TypeVar("Result")
MAX_ANSWER = 8 << 20


class OutOfTime(OSError):
    """The deadline of the conversation passed."""


class Conversation:
    """The deadline, the sockets and the one fact that matters afterwards: whether a reset left this machine."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._ends_at = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sockets: list[Any] = []
        self._over = False
        self.post_sent = False

    def remaining(self) -> float:
        """Seconds left; OutOfTime when there are none."""
        left = self._ends_at - time.monotonic()
        if left <= 0 or self._over:
            raise OutOfTime(f"no complete answer within {self.seconds:g} s")
        return left

    def opened(self, connected: Any) -> None:
        with self._lock:
            if not self._over:
                self._sockets.append(connected)
                return
        with contextlib.suppress(OSError):
            connected.close()
        raise OutOfTime("connected after the deadline")

    def about_to_post(self) -> None:
        """Called just before the first byte of a POST: from here on its outcome may be unknown."""
        with self._lock:
            if self._over:
                raise OutOfTime("the deadline passed before the reset was sent")
            self.post_sent = True

    def end(self) -> None:
        with self._lock:
            self._over = True
            for connected in self._sockets:
                with contextlib.suppress(OSError, ValueError):
                    socket.socket.shutdown(connected, socket.SHUT_RDWR)

    def run(self, work: Callable[[], Result]) -> Result:
        """`work` in a thread of its own, for at most the conversation's time; its failure is raised here."""
        outcome: list[Result] = []
        failure: list[BaseException] = []

        def worker() -> None:
            try:
                outcome.append(work())
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=worker, name="bmc-call", daemon=True)
        thread.start()
        thread.join(max(0.0, self._ends_at - time.monotonic()))
        in_time = not thread.is_alive()
        self.end()
        # What the worker concludes from a socket that was cut under it counts for nothing: a header that drips
        # until the cut looks like a complete answer.
        if in_time and outcome:
            return outcome[0]
        if in_time and failure:
            raise failure[0]
        raise OutOfTime(f"no complete answer within {self.seconds:g} s")


class _Guarded:
    """Mixed into a connection class: registers sockets, and marks the moment a POST leaves."""

    conversation: Conversation
    sock: Any
    _posting = False

    def connect(self) -> None:
        super().connect()  # type: ignore[misc]
        self.conversation.opened(self.sock)

    def putrequest(self, method: str, *args: Any, **kwargs: Any) -> None:
        self._posting = method.upper() == "POST"
        super().putrequest(method, *args, **kwargs)  # type: ignore[misc]

    def send(self, data: Any) -> None:
        if self.sock is None:
            self.connect()
        if self._posting:
            self.conversation.about_to_post()
        super().send(data)  # type: ignore[misc]


def _pool_classes(conversation: Conversation) -> dict[str, type[HTTPConnectionPool]]:
    plain = type("PlainConnection", (_Guarded, HTTPConnection), {"conversation": conversation})
    tls = type("TlsConnection", (_Guarded, HTTPSConnection), {"conversation": conversation})
    return {
        "http": type("PlainPool", (HTTPConnectionPool,), {"ConnectionCls": plain}),
        "https": type("TlsPool", (HTTPSConnectionPool,), {"ConnectionCls": tls}),
    }


class _BoundedAdapter(HTTPAdapter):
    """Reads an answer up to a size that no resource has; the library would read whatever comes in the time."""

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:
        response = super().send(*args, **kwargs)
        parts: list[bytes] = []
        size = 0
        for part in response.iter_content(1 << 16):
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER:
                response.close()
                raise OSError(f"the answer has more than {MAX_ANSWER >> 20} MiB")
        response._content = b"".join(parts)
        return response


class _BoundedSession(requests.Session):
    """Gives every request the time that is left. A POST follows no redirect: it is sent to one place, once."""

    def __init__(self, conversation: Conversation) -> None:
        super().__init__()
        self.trust_env = False
        self._conversation = conversation
        adapter = _BoundedAdapter(max_retries=0)
        adapter.poolmanager.pool_classes_by_scheme = _pool_classes(conversation)
        self.mount("http://", adapter)
        self.mount("https://", adapter)

    def request(self, method: str, url: str, **kwargs: Any) -> requests.Response:  # type: ignore[override]
        left = self._conversation.remaining()
        kwargs["timeout"] = (left, left)
        if method.upper() == "POST":
            kwargs["allow_redirects"] = False
        response = super().request(method, url, **kwargs)
        if method.upper() == "POST" and 300 <= response.status_code < 400:
            raise requests.exceptions.TooManyRedirects(
                f"the reset was redirected ({response.status_code})", response=response
            )
        return response


class BoundedConnector(Connector):
    """sushy's connector, without its own retries: it would repeat a reset whose answer got lost."""

    def __init__(self, url: str, username: str, password: str, verify: bool | str, conversation: Conversation) -> None:
        super().__init__(url, verify=verify, server_side_retries=1, server_side_retries_delay=0)
        bounded = _BoundedSession(conversation)
        bounded.headers["Connection"] = "close"
        self._session = bounded
        # sushy reads the service root before it authenticates; some BMCs want a credential even for that.
        self.set_http_basic_auth(username.encode(), password.encode())

    def _op(self, method: str, path: str = "", **kwargs: Any) -> Any:
        # One connection attempt (server_side_retries=1) and no repetition of any answered request.
        kwargs["server_side_retries_left"] = 0
        return super()._op(method, path, **kwargs)


class KnownAuth(sushy_auth.BasicAuth):
    """Basic authentication that leaves the connector's already encoded credential alone."""

    def _do_authenticate(self) -> None:
        return
