"""The one door that no real fleet has: statistics, state, and a way to break things.

It decides what people and tests may ask of the simulator itself. It refuses malformed orders with a sentence and the
list of what is possible.
"""

from typing import Any

from fleet.simulator.faults import FaultRefused, Faults
from fleet.simulator.host import Host
from fleet.simulator.kernel_log import KernelLog
from fleet.simulator.stats import Stats
from fleet.simulator.storage import Storage
from fleet.simulator.web import Request, Response, json_response


class Control:
    def __init__(
        self,
        hosts: dict[str, Host],
        stats: Stats,
        faults: Faults,
        kernel_log: KernelLog,
        storage: Storage,
        scenario: str,
    ) -> None:
        self.hosts = hosts
        self.stats = stats
        self.faults = faults
        self.kernel_log = kernel_log
        self.storage = storage
        self.scenario = scenario

    def answer(self, request: Request) -> Response:
        match (request.method, request.path.rstrip("/")):
            case ("GET", "/_sim/stats"):
                return json_response(self.stats.document())
            case ("GET", "/_sim/state"):
                return json_response(self._state(request.query.get("node", "")))
            case ("GET", "/_sim/faults"):
                known = sorted(self.faults.known.values(), key=lambda fault: fault.name)
                return json_response({fault.name: {"devices": fault.devices} for fault in known})
            case ("POST", "/_sim/inject"):
                return self._inject(request)
        return json_response({"error": f"nothing at {request.method} {request.path}"}, 404)

    def _inject(self, request: Request) -> Response:
        try:
            order = request.json()
            device = order.get("device")
            device = None if device is None or device == "" else int(device)
            fault, node, clear = str(order["fault"]), str(order.get("node") or ""), bool(order.get("clear"))
        except (ValueError, KeyError, TypeError, AttributeError):
            return json_response({"error": 'send {"fault": NAME, "node": NAME, "device": N, "clear": false}'}, 400)
        try:
            host = self.faults.inject(fault, node, device, clear)
        except FaultRefused as refusal:
            return json_response({"error": str(refusal)}, 400)
        active = sorted(host.faults) if host else []
        return json_response({"fault": fault, "node": node, "device": device, "clear": clear, "faults": active})

    def _state(self, node: str) -> dict[str, Any]:
        hosts = [self.hosts[node]] if node in self.hosts else list(self.hosts.values())
        return {
            "scenario": self.scenario,
            "nodes": {host.name: _host(host) for host in hosts},
            "servers_down": sorted(self.storage.down),
            "kernel_log": {
                "waiting": len(self.kernel_log.waiting),
                "sent": self.kernel_log.sent,
                "refused": self.kernel_log.refused,
            },
        }


def _host(host: Host) -> dict[str, Any]:
    return {
        "power": host.power,
        "booting": host.booting,
        "kubelet": host.kubelet,
        "exporters": host.exporters,
        "boot_id": host.boot_id,
        "pool": host.pool,
        "rack": host.rack,
        "leaf": host.leaf,
        "faults": sorted(host.faults),
        "gpus_gone": sorted(i for i, gpu in host.gpus.items() if gpu.gone),
        "ports_down": sorted(i for i, port in host.ports.items() if not port.up),
    }
