"""An API server that misbehaves on cue.

Decides nothing: each request is answered by the next behaviour scripted for its method and path. Refuses to be clever:
it knows no Kubernetes, so that what it sends is exactly what the test says.
"""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    query: dict[str, str]
    headers: Message
    body: Any


Behaviour = Callable[["_Handler"], None]


def answer(status: int, body: Any, **headers: str) -> Behaviour:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def behave(handler: _Handler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(raw)

    return behave


def status(
    code: int, message: str, reason: str = "", details: dict[str, Any] | None = None, **headers: str
) -> Behaviour:
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "message": message,
        "reason": reason,
    }
    return answer(code, body | {"details": details or {}}, **headers)


def page(items: list[Any], version: str, token: str = "") -> Behaviour:
    return answer(200, {"kind": "List", "metadata": {"resourceVersion": version, "continue": token}, "items": items})


def stream(*parts: Any, then: str = "end") -> Behaviour:
    """A chunked watch: bytes as they are, anything else as a line of JSON; `then` end, cut (no last chunk) or hang."""

    def behave(handler: _Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            raw = part if isinstance(part, bytes) else json.dumps(part).encode() + b"\n"
            handler.wfile.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")
            handler.wfile.flush()
        if then == "hang":
            handler.script.released.wait(20)
        if then == "end":
            handler.wfile.write(b"0\r\n\r\n")
        handler.close_connection = True

    return behave


def hang(handler: _Handler) -> None:
    """Takes the request and never says a word."""
    handler.script.released.wait(20)
    handler.close_connection = True


def cut(handler: _Handler) -> None:
    """Takes the request and drops the connection."""
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def truncated(handler: _Handler) -> None:
    """Promises more than it sends."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"items": [')
    handler.close_connection = True


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        behave = self.script.next(Asked(self.command, parts.path, query, self.headers, body))
        with contextlib.suppress(OSError):
            behave(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _serve  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


class Script:
    """Behaviours per "METHOD path" (watches are "WATCH path"); the last of a list repeats."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._acts: dict[str, list[Behaviour]] = {}

    def on(self, what: str, *behaviours: Behaviour) -> None:
        self._acts[what] = list(behaviours)

    def next(self, asked: Asked) -> Behaviour:
        method = "WATCH" if asked.query.get("watch") else asked.method
        with self._lock:
            self.asked.append(asked)
            left = self._acts.get(
                f"{method} {asked.path}", [status(404, "the script knows nothing of this", "NotFound")]
            )
            return left.pop(0) if len(left) > 1 else left[0]

    def sent(self, method: str, path: str) -> list[Asked]:
        watch = method == "WATCH"
        return [
            one
            for one in self.asked
            if one.path == path
            and (bool(one.query.get("watch")) if watch else one.method == method)
            and (watch or not one.query.get("watch"))
        ]


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that distrusts the certificate hangs up in the handshake


@contextlib.contextmanager
def serving(script: Script, pem: Path | None = None) -> Iterator[str]:
    """The script as a server, with TLS where a certificate is given."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _Quiet(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    if pem is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"{'https' if pem else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        script.released.set()
        server.shutdown()
        server.server_close()


def kubeconfig(folder: Path, server: str, user: dict[str, Any] | None = None, ca: str = "") -> str:
    trust = {"certificate-authority": ca} if ca else {}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": server} | trust}],
        "users": [{"name": "test", "user": user if user is not None else {"token": "a-token"}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return str(path)
