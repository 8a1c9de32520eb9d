"""Faults as outsiders see them: kernel lines, series, counters, and refusals of nonsense."""

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.patience import until
from tests.unit.simulator.client import Client

NODE = "gpu-r01-01"


class Receiver:
    """Stands for whoever takes kernel lines; may be told to refuse for a while."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self.tokens: set[str] = set()
        self.refusals = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.tokens.add(self.headers["Authorization"])
                if outer.refusals > 0:
                    outer.refusals -= 1
                    self.send_response(503)
                else:
                    outer.lines += body
                    self.send_response(204)
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Quiet."""

        self.server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def texts(self, node: str = NODE) -> list[str]:
        return [str(line["log"]) for line in self.lines if line["host"] == node]


@pytest.fixture
def receiver(options: Options) -> Iterator[Receiver]:
    receiver = Receiver()
    options.run.mkdir(parents=True)
    (options.run / "push-demo.token").write_text("secret\n")
    (options.run / "observer-demo.url").write_text(f"http://127.0.0.1:{receiver.server.server_port}\n")
    yield receiver
    receiver.server.shutdown()


def value(text: str, series: str, part: str) -> float:
    found = [line for line in text.splitlines() if line.startswith(series + "{") and part in line]
    assert len(found) == 1, found
    return float(found[0].rpartition(" ")[2])


def test_xid79_is_told_at_once_and_the_gpu_is_gone(receiver: Receiver, fleet: Client) -> None:
    began = time.time()
    assert fleet.inject("xid79", NODE, 3).status == 200
    until(receiver.texts)
    line = receiver.lines[0]
    assert time.time() - began < 0.5
    assert abs(line["date"] - began) < 0.5
    expected = "NVRM: Xid (PCI:0000:61:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
    assert line["log"] == expected
    assert receiver.tokens == {"Bearer secret"}
    assert "nvidia3" not in fleet.metrics(NODE).text
    until(lambda: any("154, GPU recovery action changed" in text for text in receiver.texts()))


def test_no_line_is_lost_while_the_receiver_is_away(receiver: Receiver, fleet: Client, options: Options) -> None:
    receiver.refusals = 2
    where = options.run / "observer-demo.url"
    address = where.read_text()
    where.unlink()
    fleet.inject("xid31", NODE, 0)
    fleet.inject("xid31", NODE, 1)
    time.sleep(0.15)
    assert receiver.lines == []
    where.write_text(address)
    until(lambda: len(receiver.lines) == 2)
    assert [("1b" in t, "43" in t) for t in receiver.texts()] == [(True, False), (False, True)]


def test_xid48_latches_and_counts(fleet: Client) -> None:
    fleet.inject("xid48", NODE, 2)
    text = fleet.metrics(NODE).text
    assert value(text, "DCGM_FI_DEV_XID_ERRORS", 'gpu="2"') == 48
    assert 'err_code="48"' in text
    assert value(text, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 'gpu="2"') == 1
    assert value(text, "DCGM_FI_DEV_ROW_REMAP_PENDING", 'gpu="2"') == 1
    assert value(text, "DCGM_EXP_XID_ERRORS_COUNT", 'gpu="2"') == 1
    assert value(text, "DCGM_FI_DEV_XID_ERRORS", 'gpu="1"') == 0


def test_heat(fleet: Client) -> None:
    before = value(fleet.metrics(NODE).text, "DCGM_FI_DEV_GPU_TEMP", 'gpu="4"')
    fleet.inject("thermal", NODE, 4)
    text = fleet.metrics(NODE).text
    assert value(text, "DCGM_FI_DEV_GPU_TEMP", 'gpu="4"') > before
    assert int(value(text, "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", 'gpu="4"')) & 0x48
    assert value(text, "DCGM_FI_DEV_SM_CLOCK", 'gpu="4"') < 1000


def test_ports_down_and_flapping(receiver: Receiver, fleet: Client) -> None:
    fleet.inject("ib_down", NODE, 5)
    text = fleet.metrics(NODE, "node").text
    assert value(text, "node_infiniband_state_id", "mlx5_5") == 1
    assert value(text, "node_infiniband_physical_state_id", "mlx5_5") == 2
    assert value(text, "node_infiniband_link_downed_total", "mlx5_5") == 1
    assert value(text, "node_infiniband_state_id", "mlx5_4") == 4
    fleet.inject("ib_flap", NODE, 2)
    until(lambda: value(fleet.metrics(NODE, "node").text, "node_infiniband_link_downed_total", "mlx5_2") >= 3)
    assert any("mlx5_2: Port: 1 Link DOWN" in text for text in receiver.texts())
    assert any("mlx5_2: Port: 1 Link ACTIVE" in text for text in receiver.texts())


def test_a_hung_mount_leaves_the_pod_ready(receiver: Receiver, fleet: Client) -> None:
    fleet.inject("nfs_hang", NODE)
    text = fleet.metrics(NODE, "node").text
    assert value(text, "node_filesystem_device_error", 'mountpoint="/data"') == 1
    assert 'device_error="mountpoint timeout"' in text
    assert value(text, "node_procs_blocked", "") if "node_procs_blocked{" in text else "node_procs_blocked 6" in text
    until(lambda: any("not responding" in line for line in receiver.texts()))
    pods = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
    assert {p["status"]["phase"] for p in pods} == {"Running"}
    fleet.inject("nfs_hang", NODE, clear=True)
    until(lambda: receiver.texts()[-1].endswith(" OK"))


def test_a_server_that_is_down_hangs_all_its_mounters(fleet: Client) -> None:
    fleet.inject("nfs_server_down", NODE)
    for node in (NODE, "gpu-r02-07"):
        assert value(fleet.metrics(node, "node").text, "node_filesystem_device_error", 'mountpoint="/data"') == 1
    fleet.inject("nfs_server_down", NODE, clear=True)
    assert value(fleet.metrics(NODE, "node").text, "node_filesystem_device_error", 'mountpoint="/data"') == 0


def test_exporters_that_lie(fleet: Client) -> None:
    fleet.inject("exporter_garbage", NODE)
    text = fleet.metrics(NODE).text
    assert not text.endswith("\n")
    assert "banana" in text
    fleet.inject("exporter_wrong_host", "gpu-r01-02")
    assert 'Hostname="gpu-r01-03"' in fleet.metrics("gpu-r01-02").text
    fleet.inject("exporter_wrong_host", "gpu-r01-02", clear=True)
    assert 'Hostname="gpu-r01-02"' in fleet.metrics("gpu-r01-02").text


def test_a_clock_that_steps(fleet: Client) -> None:
    fleet.inject("clock_skew", NODE)
    line = next(t for t in fleet.metrics(NODE, "node").text.splitlines() if t.startswith("node_time_seconds "))
    assert float(line.split()[1]) - time.time() > 100


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"fault": "nonsense", "node": NODE}, "known faults: aer, bmc_500"),
        ({"fault": "xid79", "node": "nobody"}, "unknown node 'nobody'; the 48 nodes are gpu-r01-01"),
        ({"fault": "xid79", "node": ""}, "unknown node"),
        ({"fault": "xid79", "node": NODE, "device": 8}, "devices 0 to 7"),
        ({"fault": "xid79", "node": NODE, "device": "x"}, "send {"),
        ([], "send {"),
    ],
)
def test_nonsense_is_refused_in_words(fleet: Client, order: Any, said: str) -> None:
    answer = fleet.call("POST", "/_sim/inject", order)
    assert answer.status == 400
    assert said in answer.json["error"]


def test_rights_can_be_withdrawn(fleet: Client) -> None:
    fleet.inject("no_patch_right")
    assert fleet.patch_node(NODE, {}).status == 403
    fleet.inject("no_patch_right", clear=True)
    assert fleet.patch_node(NODE, {}).status == 200
    fleet.inject("token_expired")
    assert fleet.patch_node(NODE, {}).status == 401


def test_one_scrape_is_cheap(fleet: Client) -> None:
    from fleet.simulator.exporters import dcgm

    world = fleet.simulator.world
    assert world is not None
    host = world.hosts[NODE]
    dcgm.text(host, time.time())
    began = time.thread_time()
    for _ in range(50):
        dcgm.text(host, time.time())
    assert (time.thread_time() - began) / 50 < 0.004


def test_old_evidence_and_foreign_cordons_are_there_from_the_start(options: Options, receiver: Receiver) -> None:
    options.scenario, options.nodes = "foreign", 96
    with running(options) as simulator:
        fleet = Client(simulator)
        cordoned = [n for n in fleet.nodes() if n["spec"].get("unschedulable")]
        assert len(cordoned) == 40
        assert not any("annotations" in n["metadata"] and "hold" in str(n["metadata"]["annotations"]) for n in cordoned)
        latched = 0
        for node in fleet.nodes():
            for line in fleet.metrics(node["metadata"]["name"]).text.splitlines():
                latched += line.startswith("DCGM_FI_DEV_XID_ERRORS{") and not line.endswith(" 0")
        assert latched == 300
        until(lambda: len(receiver.lines) == 300)
        assert max(line["date"] for line in receiver.lines) < time.time() - 80000
        assert fleet.stats()["writes"] == {}
