"""Answers scrapes: which exporter of which node, and whether it answers at all.

It decides refusals (a node that is down) and the two ways an exporter lies: text cut off with absurd values, and
samples in another node's name. It refuses to answer for nodes that do not exist.
"""

from collections.abc import Callable

from fleet.simulator.exporters import dcgm, node, switches
from fleet.simulator.host import Host
from fleet.simulator.storage import Storage
from fleet.simulator.store import Store
from fleet.simulator.web import TEXT, Response

GONE = Response(503, b"connect: connection refused\n", "text/plain")


class Exporters:
    def __init__(self, hosts: dict[str, Host], storage: Storage, store: Store, now: Callable[[], float]) -> None:
        self.hosts = hosts
        self.storage = storage
        self.store = store
        self.now = now

    def answer(self, path: str) -> Response:
        """path is /nodes/<node>/<dcgm|node>/metrics, or /fabric/metrics for the switches' ends of cables."""
        if path == "/fabric/metrics":
            return Response(200, switches.text(self.hosts, self.now()).encode(), TEXT)
        parts = path.strip("/").split("/")
        host = self.hosts.get(parts[1]) if len(parts) == 4 and parts[3] == "metrics" else None
        if host is None or parts[2] not in ("dcgm", "node"):
            return Response(404, b"404 page not found\n", "text/plain")
        if not (host.up and host.exporters):
            return GONE
        now = self.now()
        if parts[2] == "dcgm":
            body = dcgm.text(host, now)
        else:
            body = node.text(host, self.storage, now, self.store.skews.get(host.name, 0.0))
        if "exporter_garbage" in host.faults:
            body = spoil(body)
        return Response(200, body.encode(), TEXT)


def spoil(body: str) -> str:
    """Absurd values in the first lines, and an end in the middle of a line."""
    lines = body.splitlines()
    absurd = ("-999999", "9223372036854775794", "1e308", "NaN", "+Inf", "banana")
    for number, line in enumerate(lines[:60]):
        if not line.startswith("#"):
            lines[number] = line.rpartition(" ")[0] + " " + absurd[number % len(absurd)]
    cut = "\n".join(lines)
    return cut[: len(cut) * 2 // 3]
