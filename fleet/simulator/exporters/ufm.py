"""A UFM: its REST API with links and alarms, its telemetry, and the aggregation manager's.

It decides the spellings of UFM, which differ from those of an exporter, and which ports an alarm stands on. It refuses
whoever does not bring the password, by the page that a person would be sent.
"""

import base64
from collections.abc import Callable
from typing import Any

from fleet.simulator.exporters.switches import HEALTHY, counters, port_guid, switch_guid, switch_port
from fleet.simulator.host import PORTS, Host
from fleet.simulator.web import TEXT, Request, Response, json_response

TELEMETRY = (
    "SymbolErrorCounterExtended", "LinkDownedCounterExtended", "LinkErrorRecoveryCounterExtended",
    "PortRcvErrorsExtended",
)  # fmt: skip
SYMBOL_ALARM, FLAP_ALARM = (110, "Symbol error"), (112, "Link downed")
ALARMS_FROM = 3  # link drops
PAGE = Response(401, b"<html><body>401 Authorization Required</body></html>", "text/html")
SHARP_EVERY = 60


class Ufm:
    def __init__(self, hosts: dict[str, Host], now: Callable[[], float], credential: str) -> None:
        self.hosts = hosts
        self.now = now
        self.password = "Basic " + base64.b64encode(credential.encode()).decode()

    def answer(self, request: Request) -> Response:
        """/ufmRest/..., behind the password, and /ufm/metrics and /ufm/sharp beside it."""
        if request.path == "/ufm/metrics":
            return Response(200, self._telemetry().encode(), TEXT)
        if request.path == "/ufm/sharp":
            return Response(200, self._sharp().encode(), TEXT)
        if request.header("authorization") != self.password:
            return PAGE
        if request.path == "/ufmRest/resources/links":
            return json_response([self._link(h, i) for h in self.hosts.values() for i in range(PORTS)])
        if request.path == "/ufmRest/app/alarms":
            return json_response(self._alarms())
        return json_response({"error": "Not Found"}, 404)

    def _link(self, host: Host, index: int) -> dict[str, Any]:
        guid, port, far = switch_guid(host.leaf), switch_port(host, index), port_guid(host, index)
        return {
            "source_guid": guid, "source_port": str(port), "source_port_dname": str(port),
            "source_port_node_description": f"{host.leaf}:{port}",
            "destination_guid": far, "destination_port": "1", "destination_port_dname": f"HCA-{index + 1}/1",
            "destination_port_node_description": f"{host.name} mlx5_{index}",
            "width": "4x", "severity": "Info", "name": f"{guid}_{port}:{far}_1", "capabilities": [],
        }  # fmt: skip

    def _alarms(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for host in self.hosts.values():
            for index, port in host.ports.items():
                kinds = [SYMBOL_ALARM] * ("ib_symbol" in port.odd) + [FLAP_ALARM] * (port.downed >= ALARMS_FROM)
                found += [self._alarm(len(found) + n, host, index, *kind) for n, kind in enumerate(kinds, 1)]
        return found

    def _alarm(self, number: int, host: Host, index: int, code: int, name: str) -> dict[str, Any]:
        place = f"{switch_guid(host.leaf)}_{switch_port(host, index)}"
        return {
            "id": number, "event_type": code, "name": name, "severity": "Warning", "type": "Port",
            "related_object_name": place, "related_object_path": f"default / Switch: {host.leaf}", "event_count": 1,
            "summary": name, "reason": f"{name} on {place}", "counter": None,
        }  # fmt: skip

    def _telemetry(self) -> str:
        now, families = self.now(), {name: [f"# TYPE {name} counter"] for name in TELEMETRY}
        for host in self.hosts.values():
            guid = f"0x{switch_guid(host.leaf)}"
            for index in range(PORTS):
                labels = f'node_guid="{guid}",port_guid="{guid}",port_num="{switch_port(host, index)}"'
                for name, value in zip(TELEMETRY, counters(host.ports.get(index, HEALTHY), now), strict=True):
                    families[name].append(f"{name}{{{labels}}} {value}")
        return "\n".join(line for lines in families.values() for line in lines) + "\n"

    def _sharp(self) -> str:
        at = int(self.now() // SHARP_EVERY) * SHARP_EVERY
        jobs = len({owner for host in self.hosts.values() for owner in host.owners if owner})
        return f"metadata_timestamp {at}\nactive_jobs {jobs}\nactive_sat_jobs 0\nagg_nodes_in_invalid_state 0\n"
