"""Faults that show only in series and lines, slow gangs, and the scenario files made of them."""

import base64
import json
import time
import urllib.error
import urllib.request
from typing import Any

import pytest

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from fleet.simulator.pace import gang_of
from fleet.simulator.scenarios import available, load
from tests.patience import until
from tests.unit.simulator.client import Client

NODE = "gpu-r01-01"


def value(text: str, series: str, part: str = "") -> float:
    found = [
        line for line in text.splitlines() if line.startswith(series) and not line.startswith("#") and part in line
    ]
    assert len(found) == 1, found
    return float(found[0].rpartition(" ")[2])


@pytest.mark.parametrize(
    ("fault", "exporter", "series", "part"),
    [
        ("pcie_replay", "dcgm", "DCGM_FI_DEV_PCIE_REPLAY_COUNTER{", 'gpu="2"'),
        ("nvlink_errors", "dcgm", "DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL{", 'gpu="2"'),
        ("ib_symbol", "node", "node_infiniband_symbol_error_total{", "mlx5_2"),
        ("nvme_media", "node", "nvme_media_errors_total{", "nvme1"),
    ],
)
def test_what_grows(fleet: Client, fault: str, exporter: str, series: str, part: str) -> None:
    before = value(fleet.metrics(NODE, exporter).text, series, part)
    fleet.inject(fault, NODE, None if exporter == "node" and "nvme" in fault else 2)
    until(lambda: value(fleet.metrics(NODE, exporter).text, series, part) > before)
    fleet.inject(fault, NODE, clear=True)
    assert value(fleet.metrics(NODE, exporter).text, series, part) == before


@pytest.mark.parametrize(
    ("fault", "exporter", "series", "part", "expected"),
    [
        ("pcie_width", "dcgm", "DCGM_FI_DEV_PCIE_LINK_WIDTH{", 'gpu="0"', 8),
        ("row_remap", "dcgm", "DCGM_FI_DEV_ROW_REMAP_FAILURE{", 'gpu="0"', 1),
        ("fabric_manager", "dcgm", "DCGM_FI_DEV_FABRIC_MANAGER_STATUS{", 'gpu="5"', 4),
        ("sxid", "dcgm", "DCGM_FI_DEV_NVSWITCH_FATAL_ERRORS{", "nvswitch0", 20034),
        ("ib_rate", "node", "node_infiniband_rate_bytes_per_second{", "mlx5_0", 25e9),
        ("fs_readonly", "node", "node_filesystem_readonly{", 'mountpoint="/"', 1),
        ("fs_full", "node", "node_filesystem_avail_bytes{", 'mountpoint="/raid"', 2.8e13 * 0.004),
        ("nvme_wear", "node", "nvme_percentage_used_ratio{", "nvme1", 0.97),
        ("edac_ue", "node", "node_edac_uncorrectable_errors_total{", "", 1),
        ("psu", "node", "ipmi_sensor_state{", "PSU1", 2),
    ],
)
def test_what_says_otherwise(fleet: Client, fault: str, exporter: str, series: str, part: str, expected: float) -> None:
    well = value(fleet.metrics(NODE, exporter).text, series, part)
    fleet.inject(fault, NODE)
    assert value(fleet.metrics(NODE, exporter).text, series, part) == expected != well
    fleet.inject(fault, NODE, clear=True)
    assert value(fleet.metrics(NODE, exporter).text, series, part) == well


def test_a_cable_counts_on_both_ends(fleet: Client) -> None:
    fleet.inject("ib_symbol", NODE, 3)
    (uplink,) = [line for line in fabric(fleet).splitlines() if f'uplink="{NODE} mlx5_3"' in line]
    port = uplink.partition("{")[2].partition(",uplink")[0]
    until(lambda: value(fabric(fleet), "infiniband_switch_port_symbol_error_total{", port) > 0)


def fabric(fleet: Client) -> str:
    return fleet.call("GET", "/fabric/metrics").text


def ufm(fleet: Client, path: str, secret: str = "admin:simulated") -> Any:
    known = {"Authorization": "Basic " + base64.b64encode(secret.encode()).decode()}
    with urllib.request.urlopen(urllib.request.Request(fleet.simulator.address + path, headers=known)) as answer:
        return json.load(answer)


def test_the_fabrics_manager_tells_both_ends_to_who_has_its_password(fleet: Client) -> None:
    with pytest.raises(urllib.error.HTTPError, match="401"):
        ufm(fleet, "/ufmRest/resources/links", "admin:guessed")
    links = ufm(fleet, "/ufmRest/resources/links")
    ends = {link["destination_port_node_description"]: link for link in links}
    assert len(ends) == len(links) == 8 * fleet.simulator.options.nodes
    assert ufm(fleet, "/ufmRest/app/alarms") == []
    fleet.inject("ib_symbol", NODE, 3)
    (alarm,) = ufm(fleet, "/ufmRest/app/alarms")
    link = ends[f"{NODE} mlx5_3"]
    assert alarm["related_object_name"] == f"{link['source_guid']}_{link['source_port']}"
    guid = f"0x{link['source_guid']}"
    port = f'node_guid="{guid}",port_guid="{guid}",port_num="{link["source_port"]}"'
    until(lambda: value(fleet.call("GET", "/ufm/metrics").text, "SymbolErrorCounterExtended{", port) > 0)
    assert "agg_nodes_in_invalid_state 0" in fleet.call("GET", "/ufm/sharp").text


def test_one_slow_gpu_slows_its_gang_and_stands_out(fleet: Client) -> None:
    world = fleet.simulator.world
    assert world is not None
    gang = gang_of(world.hosts[NODE])
    members = [host.name for host in world.hosts.values() if gang_of(host) == gang]
    assert len(members) > 1
    clock, tensor = "DCGM_FI_DEV_SM_CLOCK{", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{"
    before = value(fleet.metrics(members[1]).text, tensor, 'gpu="0"')
    fleet.inject("grey_gpu", NODE, 4)
    text, peer = fleet.metrics(NODE).text, fleet.metrics(members[1]).text
    assert value(text, clock, 'gpu="4"') < 0.6 * value(text, clock, 'gpu="3"')
    assert value(peer, tensor, 'gpu="0"') < 0.7 * before
    assert value(peer, "DCGM_FI_DEV_GPU_UTIL{", 'gpu="0"') > 90  # who waits for a peer spins
    fleet.inject("grey_gpu", NODE, 4, clear=True)
    assert value(fleet.metrics(members[1]).text, tensor, 'gpu="0"') > 0.8 * before


def test_every_scenario_file_is_understood() -> None:
    for name in available():
        assert load(name).description
    assert {"storm", "fabric", "storage", "grey", "blink"} <= set(available())


def faults(fleet: Client) -> dict[str, list[str]]:
    nodes = fleet.call("GET", "/_sim/state").json["nodes"]
    return {name: node["faults"] for name, node in nodes.items() if node["faults"]}


@pytest.mark.parametrize(
    ("scenario", "nodes", "expected"),
    [("storm", 79, {"xid_storm"}), ("blink", 14, {"isolated", "not_ready"}), ("fabric", 64, {"leaf_flap"})],
)
def test_scenarios_hit_what_they_say(options: Options, scenario: str, nodes: int, expected: set[str]) -> None:
    options.scenario, options.nodes, options.speed = scenario, 293, 60
    with running(options) as simulator:
        fleet = Client(simulator)
        until(lambda: len(faults(fleet)) == nodes)
        assert {fault for found in faults(fleet).values() for fault in found} == expected
        if scenario == "blink":
            until(lambda: not faults(fleet))


def test_a_quiet_node_is_cheap_to_scrape(fleet: Client) -> None:
    """The oddities cost nothing while there are none."""
    from fleet.simulator.exporters import dcgm, node

    world = fleet.simulator.world
    assert world is not None
    host, now = world.hosts[NODE], time.time()
    began = time.thread_time()
    for _ in range(20):
        dcgm.text(host, now)
        node.text(host, world.storage, now, 0.0)
    assert (time.thread_time() - began) / 20 < 0.008
    assert not host.odd and host.pace == 1.0
