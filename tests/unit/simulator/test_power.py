"""Power and what follows: boots, new boot ids, silence, taints, high-water marks, BMCs through sushy."""

import base64
import concurrent.futures
import http.client
import json
from datetime import datetime
from typing import Any

import pytest
import sushy

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from tests.patience import until
from tests.unit.simulator.client import Client

NODE = "gpu-r01-01"
UNREACHABLE = "node.kubernetes.io/unreachable"


def system(fleet: Client, node: str = NODE) -> Any:
    root = sushy.Sushy(
        fleet.simulator.address,
        root_prefix=f"/bmc/{node}/redfish/v1/",
        auth=sushy.auth.BasicAuth("admin", "simulated"),
        server_side_retries=0,
    )
    return root.get_system()


def reset(fleet: Client, verb: str, node: str = NODE, password: str = "admin:simulated") -> int:
    world = fleet.simulator.world
    assert world is not None
    connection = http.client.HTTPConnection(fleet.host, fleet.port, timeout=10)
    path = f"/bmc/{node}/redfish/v1/Systems/{world.hosts[node].uuid}/Actions/ComputerSystem.Reset"
    headers = {"Authorization": "Basic " + base64.b64encode(password.encode()).decode()}
    connection.request("POST", path, json.dumps({"ResetType": verb}), headers)
    return connection.getresponse().status


def boot_id(fleet: Client, node: str = NODE) -> str:
    return str(fleet.node(node)["status"]["nodeInfo"]["bootID"])


def ready(fleet: Client, node: str = NODE) -> str:
    return next(str(c["status"]) for c in fleet.node(node)["status"]["conditions"] if c["type"] == "Ready")


def test_sushy_resets_a_node_and_the_boot_id_changes(fleet: Client) -> None:
    before = boot_id(fleet)
    machine = system(fleet)
    assert machine.serial_number == fleet.simulator.world.hosts[NODE].serial  # type: ignore[union-attr]
    assert machine.uuid == fleet.node(NODE)["status"]["nodeInfo"]["systemUUID"]
    allowed = machine.get_allowed_reset_system_values()
    assert sushy.ResetType.FORCE_RESTART in allowed
    machine.reset_system(sushy.ResetType.FORCE_RESTART)
    until(lambda: ready(fleet) == "Unknown")
    assert fleet.metrics(NODE).status == 503
    until(lambda: boot_id(fleet) != before and ready(fleet) == "True")
    assert boot_id(fleet)
    stats = fleet.stats()
    assert stats["boots"] == {NODE: 1}
    assert stats["bmc"] == {NODE: {"ForceRestart": 1}}
    assert stats["bmc_concurrent_max"] == 1
    assert stats["out_max"]["rack"] == {"r01": 1}
    until(lambda: fleet.metrics(NODE).status == 200)


def test_a_boot_mends_the_gpu_and_shows_a_fresh_heartbeat(fleet: Client) -> None:
    fleet.inject("xid79", NODE, 3)
    assert "nvidia3" not in fleet.metrics(NODE).text
    until(lambda: fleet.node(NODE)["status"]["allocatable"]["nvidia.com/gpu"] == "7")
    before = fleet.node(NODE)
    version = before["metadata"]["resourceVersion"]
    assert reset(fleet, "ForceRestart") == 204
    fields = f"metadata.name={NODE}"
    for event in fleet.watch("/api/v1/nodes", resourceVersion=version, fieldSelector=fields):
        node = event["object"]
        if node["status"]["nodeInfo"]["bootID"] != before["status"]["nodeInfo"]["bootID"]:
            break
    condition = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
    assert condition["status"] == "True"
    old = next(c for c in before["status"]["conditions"] if c["type"] == "Ready")
    beat, was = (datetime.fromisoformat(c["lastHeartbeatTime"]) for c in (condition, old))
    assert beat >= was
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
    until(lambda: "nvidia3" in fleet.metrics(NODE).text)


def test_pods_after_a_boot(fleet: Client) -> None:
    pods = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
    gang = next(p for p in pods if p["metadata"]["namespace"] == "train")
    reset(fleet, "ForceRestart")

    def again() -> bool:
        now = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
        uids = {p["metadata"]["uid"] for p in now}
        daemons = [p for p in now if p["metadata"]["namespace"] in ("monitoring", "gpu-operator")]
        counts = [c["restartCount"] for p in daemons for c in p["status"]["containerStatuses"]]
        return gang["metadata"]["uid"] not in uids and counts == [1, 1, 1, 1]

    until(again)


def test_off_and_on(fleet: Client) -> None:
    before = boot_id(fleet)
    assert reset(fleet, "ForceOff") == 204
    until(lambda: system(fleet).power_state == sushy.PowerState.OFF)
    until(lambda: ready(fleet) == "Unknown")
    assert reset(fleet, "ForceRestart") == 409
    assert fleet.stats()["boots"] == {}
    assert reset(fleet, "On") == 204
    until(lambda: boot_id(fleet) != before and ready(fleet) == "True")
    assert fleet.stats()["boots"] == {NODE: 1}


def test_out_max_counts_nodes_out_together(fleet: Client) -> None:
    for node in (NODE, "gpu-r01-02", "gpu-r02-01"):
        reset(fleet, "ForceOff", node)
    out = fleet.stats()["out_max"]
    assert out["rack"] == {"r01": 2, "r02": 1}
    assert out["leaf"] == {"leaf-01": 3}
    assert out["fleet"] == {"fleet": 3}


def test_calls_that_overlap_on_one_bmc_are_seen(fleet: Client) -> None:
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda node: system(fleet, node), [NODE, "gpu-r01-02"]))
        assert fleet.stats()["bmc_concurrent_max"] == 1
        list(threads.map(lambda _: system(fleet), range(4)))
    assert fleet.stats()["bmc_concurrent_max"] > 1


def test_a_bmc_wants_its_password(fleet: Client) -> None:
    assert reset(fleet, "ForceRestart", password="admin:wrong") == 401
    assert fleet.stats()["bmc"] == {}
    assert reset(fleet, "Explode") == 400


def test_bmcs_that_misbehave(fleet: Client) -> None:
    before = boot_id(fleet)
    fleet.inject("bmc_lies", NODE)
    assert reset(fleet, "ForceRestart") == 204
    assert boot_id(fleet) == before
    assert fleet.stats()["boots"] == {}
    assert fleet.stats()["bmc"] == {NODE: {"ForceRestart": 1}}
    fleet.inject("bmc_500", "gpu-r01-02")
    assert reset(fleet, "ForceRestart", "gpu-r01-02") == 500
    fleet.inject("bmc_wrong_serial", "gpu-r01-03")
    machine = system(fleet, "gpu-r01-03")
    assert machine.serial_number != fleet.simulator.world.hosts["gpu-r01-03"].serial  # type: ignore[union-attr]


def test_a_silent_bmc_is_not_busy_once_its_caller_has_gone(fleet: Client) -> None:
    fleet.inject("bmc_silent", NODE)
    for _ in range(5):
        connection = http.client.HTTPConnection(fleet.host, fleet.port, timeout=0.1)
        connection.request("GET", f"/bmc/{NODE}/redfish/v1/")
        with pytest.raises(TimeoutError):
            connection.getresponse()
        connection.close()
    assert fleet.stats()["bmc_concurrent_max"] == 1


def test_boot_override_is_read_back(fleet: Client) -> None:
    machine = system(fleet)
    machine.set_system_boot_options(target=sushy.BootSource.PXE, enabled=sushy.BootSourceOverrideEnabled.ONCE)
    assert system(fleet).boot.target == sushy.BootSource.PXE


def test_a_silent_kubelet_becomes_unknown_then_its_pods_are_deleted(options: Options) -> None:
    options.speed = 150
    with running(options) as simulator:
        check_a_silent_kubelet(Client(simulator))


def check_a_silent_kubelet(fleet: Client) -> None:
    fleet.inject("not_ready", NODE)
    assert ready(fleet) == "True"
    until(lambda: ready(fleet) == "Unknown")
    taints = {(t["key"], t["effect"]) for t in fleet.node(NODE)["spec"]["taints"]}
    assert taints == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
    assert fleet.metrics(NODE).status == 200

    def leaving() -> list[Any]:
        pods = fleet.pods(fieldSelector=f"spec.nodeName={NODE}")
        return [p for p in pods if "deletionTimestamp" in p["metadata"]]

    found = until(leaving)
    namespaces = {p["metadata"]["namespace"] for p in found}
    assert "train" in namespaces and not {"monitoring", "gpu-operator"} & namespaces
    told = {c["reason"] for p in found for c in p["status"]["conditions"] if c["type"] == "DisruptionTarget"}
    assert told == {"DeletionByTaintManager"}


def test_a_dead_host_is_revived_by_its_bmc(fleet: Client) -> None:
    before = boot_id(fleet)
    fleet.inject("host_dead", NODE)
    assert fleet.metrics(NODE).status == 503
    until(lambda: ready(fleet) == "Unknown")
    reset(fleet, "PowerCycle")
    until(lambda: boot_id(fleet) != before and ready(fleet) == "True")
    assert "taints" not in fleet.node(NODE)["spec"]


def test_a_stubborn_fault_survives_the_boot_until_it_is_repaired(fleet: Client) -> None:
    before = boot_id(fleet)
    fleet.inject("gpu_lost", NODE, 1)
    fleet.inject("stubborn", NODE)
    reset(fleet, "ForceRestart")
    until(lambda: boot_id(fleet) != before)
    until(lambda: fleet.metrics(NODE).status == 200)
    assert "nvidia1" not in fleet.metrics(NODE).text
    fleet.inject("stubborn", NODE, clear=True)
    assert "nvidia1" in fleet.metrics(NODE).text
