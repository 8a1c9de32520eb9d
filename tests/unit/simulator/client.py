"""A small client of the simulated fleet: plain HTTP, no library that could hide what is on the wire."""

import http.client
import json
from collections.abc import Generator
from typing import Any
from urllib.parse import urlencode, urlsplit

from fleet.simulator.server import Simulator

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"


class Answer:
    def __init__(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.status = status
        self.body = body
        self.headers = headers

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Client:
    def __init__(self, simulator: Simulator) -> None:
        self.simulator = simulator
        parts = urlsplit(simulator.address)
        self.host, self.port = parts.hostname or "", parts.port

    def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", token: str | None = None
    ) -> Answer:
        if token is None:
            options = self.simulator.options
            token = options.read_token if method == "GET" else options.act_token
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {token}"} if token else {})
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = Answer(response.status, response.read(), dict(response.getheaders()))
        connection.close()
        return answer

    def get(self, path: str, **query: Any) -> Any:
        answer = self.call("GET", path + ("?" + urlencode(query) if query else ""))
        assert answer.status == 200, answer.text
        return answer.json

    def node(self, name: str) -> Any:
        return self.get(f"/api/v1/nodes/{name}")

    def nodes(self) -> list[Any]:
        return list(self.get("/api/v1/nodes")["items"])

    def pods(self, **query: Any) -> list[Any]:
        return list(self.get("/api/v1/pods", **query)["items"])

    def patch_node(self, name: str, patch: Any, kind: str = MERGE) -> Answer:
        return self.call("PATCH", f"/api/v1/nodes/{name}", patch, kind)

    def evict(self, pod: Any) -> Answer:
        meta = pod["metadata"]
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        }
        return self.call("POST", f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction", body)

    def inject(self, fault: str, node: str = "", device: int | None = None, clear: bool = False) -> Answer:
        order = {"fault": fault, "node": node, "device": device, "clear": clear}
        return self.call("POST", "/_sim/inject", order)

    def stats(self) -> Any:
        return self.get("/_sim/stats")

    def metrics(self, node: str, exporter: str = "dcgm") -> Answer:
        return self.call("GET", f"/nodes/{node}/{exporter}/metrics")

    def watch(self, path: str, **query: Any) -> Generator[Any, None, None]:
        """Events until the stream ends; raises http.client.IncompleteRead when it is cut."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        query = {"watch": "true", "timeoutSeconds": 5} | query
        headers = {"Authorization": f"Bearer {self.simulator.options.read_token}"}
        connection.request("GET", f"{path}?{urlencode(query)}", headers=headers)
        response = connection.getresponse()
        assert response.status == 200, response.read()
        try:
            while line := response.readline():
                yield json.loads(line)
        finally:
            connection.close()
