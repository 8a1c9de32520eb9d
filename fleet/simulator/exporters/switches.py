"""What an InfiniBand exporter says of the switches: counters of each port that a node hangs on, and the far end's name.

It decides series and labels: a cable has two ends, and both count its errors. It refuses ports that nothing hangs on.
"""

from fleet.simulator.exporters.oddities import GROWS
from fleet.simulator.host import PORTS, Host, Port, identity

PREFIX = "infiniband_switch_port_"
COUNTERS = ("symbol_error_total", "link_downed_total", "link_error_recovery_total", "receive_errors_total")
HEALTHY = Port()


def switch_guid(leaf: str) -> str:
    return identity(leaf, "switch").hex[:16]


def port_guid(host: Host, index: int) -> str:
    return identity(host.uuid, "hca", index).hex[:16]


def switch_port(host: Host, index: int) -> int:
    return host.index * PORTS + index + 1


def counters(port: Port, now: float) -> tuple[int, ...]:
    """In the order of COUNTERS."""
    since = now - port.odd.get("ib_symbol", now)
    grown = GROWS["ib_symbol"]
    symbols = port.symbol_errors + int(since * grown["symbol_error_total"])
    return symbols, port.downed, port.recoveries, int(since * grown["port_errors_received_total"])


def text(hosts: dict[str, Host], now: float) -> str:
    families: dict[str, list[str]] = {name: [f"# TYPE {PREFIX}{name} counter"] for name in COUNTERS}
    ends = ["# TYPE infiniband_switch_uplink_info gauge"]
    for host in hosts.values():
        guid = f"0x{switch_guid(host.leaf)}"
        for index in range(PORTS):
            labels = f'guid="{guid}",port="{switch_port(host, index)}",switch="{host.leaf}"'
            values = counters(host.ports.get(index, HEALTHY), now)
            for name, value in zip(COUNTERS, values, strict=True):
                families[name].append(f"{PREFIX}{name}{{{labels}}} {value}")
            far = f'uplink="{host.name} mlx5_{index}",uplink_guid="0x{port_guid(host, index)}"'
            ends.append(f'infiniband_switch_uplink_info{{{labels},{far},uplink_port="1",uplink_type="CA"}} 1')
    return "\n".join([line for lines in families.values() for line in lines] + ends) + "\n"
