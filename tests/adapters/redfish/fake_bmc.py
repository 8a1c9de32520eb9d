"""A BMC with one or more systems that can be told to misbehave.

Decides nothing about power: it counts what it was asked. Refuses retries: each request is answered as scripted.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PEM = Path(__file__).with_name("selfsigned.pem")
UUID = "c7a5fdbd-cdaf-9455-926a-d65c16db1809"
SERIAL = "SN-0001"
USER, PASSWORD = "admin", "top-secret-word"
Behaviour = Callable[["_Handler"], None]


def answer(status: int, body: Any = None, **headers: str) -> Behaviour:
    def behave(handler: _Handler) -> None:
        raw = json.dumps(body).encode() if body is not None else b""
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(raw)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(raw)

    return behave


def refusal(status: int, message: str, code: str = "Base.1.0.GeneralError", **headers: str) -> Behaviour:
    return answer(status, {"error": {"code": code, "message": message}}, **headers)


def hang(handler: _Handler) -> None:
    handler.bmc.released.wait(20)


def drip(handler: _Handler) -> None:
    """A header that never ends, one byte at a time: every single read succeeds."""
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX-Slow: ")
    _dripping(handler)


def drip_body(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{")
    _dripping(handler)


def _dripping(handler: _Handler) -> None:
    while not handler.bmc.released.wait(0.05):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        handler.bmc.dripped_at = time.monotonic()


def cut(handler: _Handler) -> None:
    with contextlib.suppress(OSError):
        handler.connection.shutdown(socket.SHUT_RDWR)


def garbage(handler: _Handler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>")


class _Handler(BaseHTTPRequestHandler):
    bmc: FakeBmc

    def do_GET(self) -> None:
        self._serve("GET", None)

    def do_POST(self) -> None:
        self._serve("POST", json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0))))

    def _serve(self, method: str, body: Any) -> None:
        with contextlib.suppress(OSError):
            self.bmc.behaviour(method, self.path, body, self.headers.get("Authorization") or "")(self)
        self.close_connection = True

    def log_message(self, *args: Any) -> None:
        pass


class FakeBmc:
    """`on[path suffix]` overrides an answer; `resets` are the bodies of every reset that arrived."""

    def __init__(self, prefix: str = "") -> None:
        self.root = f"{prefix}/redfish/v1"
        self.on: dict[str, Behaviour] = {}
        self.resets: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.released = threading.Event()
        self.dripped_at = 0.0
        self.systems: dict[str, dict[str, Any]] = {}
        self.address = ""
        self.add("1", UUID, SERIAL)

    def add(self, name: str, uuid: str | None, serial: str | None, **more: Any) -> dict[str, Any]:
        path = f"{self.root}/Systems/{name}"
        kinds = ["On", "ForceOff", "GracefulRestart", "ForceRestart"]
        action = {"target": f"{path}/Actions/ComputerSystem.Reset", "ResetType@Redfish.AllowableValues": kinds}
        self.systems[path] = {
            "@odata.id": path,
            "Id": name,
            "Name": name,
            "UUID": uuid,
            "SerialNumber": serial,
            "PowerState": "On",
            "LastResetTime": "2026-11-29T10:00:00Z",
            "BootProgress": {"LastState": "OSRunning"},
            "Actions": {"#ComputerSystem.Reset": action},
            **more,
        }
        return self.systems[path]

    @property
    def system(self) -> dict[str, Any]:
        return next(iter(self.systems.values()))

    def behaviour(self, method: str, path: str, body: Any, authorization: str) -> Behaviour:
        self.asked.append(f"{method} {path}")
        expected = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if method == "POST":
            self.resets.append(body)
        for suffix, behave in self.on.items():
            if path.rstrip("/").endswith(suffix):
                return behave
        if authorization != expected:
            return refusal(401, "no access")
        if method == "POST":
            return answer(204)
        bare = path.rstrip("/")
        if bare == self.root:
            return answer(200, {"@odata.id": bare, "Id": "Root", "Systems": {"@odata.id": f"{bare}/Systems"}})
        if bare == f"{self.root}/Systems":
            return answer(200, {"@odata.id": bare, "Members": [{"@odata.id": member} for member in self.systems]})
        return answer(200, self.systems[bare]) if bare in self.systems else refusal(404, "nothing here")


class _Quiet(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that distrusts the certificate hangs up in the handshake


@contextlib.contextmanager
def running(bmc: FakeBmc, tls: bool = False) -> Iterator[FakeBmc]:
    server = _Quiet(("127.0.0.1", 0), type("Handler", (_Handler,), {"bmc": bmc}))
    server.daemon_threads = True
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(PEM)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    prefix = bmc.root.removesuffix("/redfish/v1")
    bmc.address = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}{prefix}"
    try:
        yield bmc
    finally:
        bmc.released.set()
        server.shutdown()
        server.server_close()
