"""A query API that answers as it is told, and remembers what it was asked."""

from __future__ import annotations

import contextlib
import gzip
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

from tests.patience import PATIENCE


def success(kind: str, result: Any, **more: Any) -> bytes:
    return json.dumps({"status": "success", "data": {"resultType": kind, "result": result}, **more}).encode()


def failure(kind: str, text: str) -> bytes:
    return json.dumps({"status": "error", "errorType": kind, "error": text}).encode()


ONE = success("vector", [{"metric": {"Hostname": "gpu-1"}, "value": [1700000000.5, "42"]}])


@dataclass
class FakeApi:
    """`body` may be cut short (`promised` is then the length it announces) and may come late."""

    status: int = 200
    body: bytes = ONE
    at: dict[str, bytes] = field(default_factory=dict)  # path -> another body
    headers: dict[str, str] = field(default_factory=dict)
    promised: int | None = None
    late: float = 0.0
    slowly: float = 0.0
    zipped: bool = False
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    now: int = 0
    most: int = 0
    url: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)
    meets: threading.Barrier | None = None  # requests are answered when so many have come


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    api: FakeApi

    def do_POST(self) -> None:
        api = self.api
        raw = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
        fields = {key: values[0] for key, values in parse_qs(raw).items()}
        with api.lock:
            api.asked.append((self.path, fields, dict(self.headers)))
            api.now += 1
            api.most = max(api.most, api.now)
        if api.meets is not None:
            api.meets.wait(PATIENCE)
        time.sleep(api.late)
        with api.lock:
            api.now -= 1
        said = api.at.get(self.path, api.body)
        body = gzip.compress(said) if api.zipped else said
        self.send_response(api.status)
        for name, value in api.headers.items():
            self.send_header(name, value)
        if api.zipped:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(api.promised or len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            if api.slowly:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(api.slowly)
            else:
                self.wfile.write(body)
        if api.promised:
            self.close_connection = True

    def do_GET(self) -> None:
        self.do_POST()

    def log_message(self, *args: Any) -> None:
        pass


@contextlib.contextmanager
def running(api: FakeApi) -> Iterator[FakeApi]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        server.shutdown()
        server.server_close()
