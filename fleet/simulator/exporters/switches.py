"""What an InfiniBand exporter says about the switch's end of each cable that ever had trouble.

It decides series and labels: a cable has two ends, and both count its errors. It refuses the thousands of quiet ports.
"""

from fleet.simulator.exporters.oddities import GROWS
from fleet.simulator.host import PORTS, Host

PREFIX = "infiniband_switch_port_"


def text(hosts: dict[str, Host], now: float) -> str:
    symbols = [f"# TYPE {PREFIX}symbol_error_total counter"]
    downed = [f"# TYPE {PREFIX}link_downed_total counter"]
    ends = ["# TYPE infiniband_switch_uplink_info gauge"]
    for host in hosts.values():
        for index, port in sorted(host.ports.items()):
            labels = f'guid="{host.leaf}",switch="{host.leaf}",port="{host.index * PORTS + index + 1}"'
            since = port.odd.get("ib_symbol", now)
            errors = port.symbol_errors + int((now - since) * GROWS["ib_symbol"]["symbol_error_total"])
            symbols.append(f"{PREFIX}symbol_error_total{{{labels}}} {errors}")
            downed.append(f"{PREFIX}link_downed_total{{{labels}}} {port.downed}")
            ends.append(f'infiniband_switch_uplink_info{{{labels},uplink="{host.name} mlx5_{index}"}} 1')
    return "\n".join((*symbols, *downed, *ends)) + "\n"
