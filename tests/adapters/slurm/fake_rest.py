"""A slurmrestd of any version, with the answers that real ones of 22.05 and 24.11 gave, recorded.

It keeps what it is told: a drain, a resume (which leaves the old reason, as 24.11 does), a reason, a requeue. `oddly`
lets it answer an act in one of the ways that real versions have.
"""

from __future__ import annotations

import contextlib
import copy
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

RECORDED = Path(__file__).parent / "recorded"
OLD, NEW, NEWEST = "22.05", "24.11", "26.05"
"""The last one is made up in the shape of what such a server answers."""
NO_ERROR = {"error_number": 0, "error": "No error", "source": "_dump_nodes"}
UNKNOWN = {"error_number": 2018, "description": "Invalid node name specified"}
DENIED = {"error_number": 2010, "description": "Invalid user id"}


def recorded(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RECORDED / f"{release}.json").read_text())
    return found


class Cut(Exception):
    """The line breaks off here."""


@dataclass
class FakeRest:
    version: int
    oddly: str = ""  # refused, unknown_in_200, says_yes, cut, away
    told: list[tuple[str, str, Any]] = field(default_factory=list)
    users: set[str | None] = field(default_factory=set)
    url: str = ""
    data: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.data = self.data or recorded(OLD if self.version < 40 else NEW)

    def node(self, name: str) -> dict[str, Any]:
        return next(one for one in self.data["nodes"] if one["name"] == name)

    def words(self, name: str) -> set[str]:
        raw = self.node(name)
        base = [raw["state"].upper()] if isinstance(raw["state"], str) else raw["state"]
        return {*base, *raw.get("state_flags", [])}

    def get(self, what: str) -> tuple[int, dict[str, Any]]:
        kind, _, name = what.partition("/")
        if "/requeue" in name:
            return self._requeue(what)
        if kind == "ping":
            return 200, {"pings": [], "errors": []}
        plural = {"node": "nodes", "job": "jobs"}.get(kind, kind)
        rows = self.data.get(plural, []) if kind == "reservations" else self.data[plural]
        if name:
            mark = "name" if kind == "node" else "job_id"
            rows = [one for one in rows if str(one[mark]) == name]
            if not rows and kind == "node" and self.version >= 40:
                return 200, {"errors": [{"description": f"Failure to query node {name}", **NO_ERROR}]}
            if not rows:
                return (404 if self.version >= 41 else 500), {plural: [], "errors": [UNKNOWN]}
        return 200, {plural: rows, "errors": [], "warnings": []}

    def post(self, what: str, body: Any) -> tuple[int, dict[str, Any]]:
        self.told.append(("POST", what, body))
        name = what.partition("/")[2]
        if self.version < 39 or name.endswith("/requeue"):
            return 405, {}
        if self.oddly == "refused":
            return 500, {"errors": [DENIED]}
        if self.oddly == "unknown_in_200":
            return 200, {"errors": [UNKNOWN]}
        if self.oddly == "says_yes":
            return 200, {"errors": []}
        self._change(self.node(name), body)
        return 200, {"errors": []}

    def _requeue(self, what: str) -> tuple[int, dict[str, Any]]:
        """26.05 takes it by GET alone, and none before."""
        if self.version < 45:
            return 404, {}
        self.told.append(("GET", what, None))
        if self.oddly == "refused":
            return 500, {"errors": [DENIED]}
        job = next(one for one in self.data["jobs"] if str(one["job_id"]) == what.split("/")[1])
        job |= {"job_state": ["PENDING"], "nodes": "", "state_reason": "BeginTime"}
        return 200, {"errors": []}

    def delete(self, what: str) -> tuple[int, dict[str, Any]]:
        self.told.append(("DELETE", what, None))
        return 200, {"errors": []}

    def _change(self, raw: dict[str, Any], body: dict[str, Any]) -> None:
        words = set(raw["state"] if isinstance(raw["state"], list) else [raw["state"].upper(), *raw["state_flags"]])
        for word in body.get("state", []):
            assert word in ("DRAIN", "RESUME"), "nothing else is ever told"
            words = words | {"DRAIN"} if word == "DRAIN" else words - {"DRAIN", "DOWN", "FAIL"} | {"IDLE"}
        raw["state"] = sorted(words) if isinstance(raw["state"], list) else next(iter(words - {"DRAIN"})).lower()
        if "state_flags" in raw:
            raw["state_flags"] = sorted(words & {"DRAIN"})
        raw["reason"] = body.get("reason", raw["reason"])


class Uncounted(FakeRest):
    """As slurmctld is between two lists: a node asked for alone has the counts of the last one."""

    def get(self, what: str) -> tuple[int, dict[str, Any]]:
        status, answer = super().get(what)
        if what.startswith("node/"):
            answer = {**answer, "nodes": [{**one, "state": ["MIXED", "DRAIN"]} for one in answer["nodes"]]}
        return status, answer


Fake = TypeVar("Fake", bound=FakeRest)


@contextlib.contextmanager
def running(fake: Fake) -> Iterator[Fake]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body in one packet

        def _answer(self, status: int, body: Any) -> None:
            raw = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def _call(self, body: Any = None) -> None:
            fake.users.add(self.headers["X-SLURM-USER-NAME"])
            head = f"/slurm/v0.0.{fake.version}/"
            if not self.path.startswith(head):
                self._answer(404, b"Unable find requested URL.")
                return
            what = self.path[len(head) :]
            try:
                if (self.command != "GET" or "requeue" in what) and fake.oddly == "cut":
                    raise Cut
                if self.command == "GET":
                    answer = fake.get(what)
                else:
                    answer = fake.delete(what) if self.command == "DELETE" else fake.post(what, body)
            except Cut:
                self.close_connection = True
                self.connection.close()
            else:
                self._answer(*answer)

        def do_GET(self) -> None:
            self._call()

        def do_DELETE(self) -> None:
            self._call()

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"] or 0))
            self._call(json.loads(raw) if raw else None)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    fake.data = copy.deepcopy(fake.data)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
