"""Starting and stopping: files, ports, scenarios, seeds, the command line."""

import csv
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from fleet.simulator.embed import running
from fleet.simulator.options import Options
from fleet.simulator.scenarios import ScenarioError, available, load
from fleet.simulator.sockets import PortTaken
from tests.patience import PATIENCE, until
from tests.unit.simulator.client import Client


def test_files_for_clients(fleet: Client, options: Options) -> None:
    folder = options.var / "simulator"
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    assert config["clusters"][0]["cluster"]["server"] == fleet.simulator.address
    acting = yaml.safe_load((folder / "act.kubeconfig").read_text())
    assert acting["users"][0]["user"]["token"] != config["users"][0]["user"]["token"]
    assert (folder / "url").read_text().strip() == fleet.simulator.address
    assert (folder / "kubeconfig").stat().st_mode & 0o077 == 0
    rows = list(csv.DictReader((folder / "inventory.csv").open()))
    assert len(rows) == 48
    row = rows[0]
    assert row["bmc_address"] == f"{fleet.simulator.address}/bmc/{row['node']}"
    assert row["bmc_uuid"] == fleet.node(row["node"])["status"]["nodeInfo"]["systemUUID"]
    assert row["credential_ref"] == "env:MUSTER_DEMO_BMC"


def test_every_node_carries_the_pods_that_were_asked_for_and_an_evicted_one_is_replaced(tmp_path: Path) -> None:
    with running(Options(nodes=20, var=tmp_path, speed=50, pods_per_node=8)) as simulator:
        fleet = Client(simulator)
        carried = Counter(pod["spec"].get("nodeName") for pod in fleet.pods(fieldSelector="spec.nodeName!="))
        assert len(carried) == 20
        assert min(carried.values()) >= 8
        small = [pod for pod in fleet.pods() if pod["metadata"]["name"].startswith("preprocess-1-")]
        assert all("nvidia.com/gpu" not in pod["spec"]["containers"][0]["resources"]["requests"] for pod in small)
        assert fleet.evict(small[0]).status == 201
        known = {pod["metadata"]["uid"] for pod in small}
        running_now = {"fieldSelector": "status.phase=Running", "labelSelector": "app=preprocess-1"}
        until(lambda: {pod["metadata"]["uid"] for pod in fleet.pods(**running_now)} - known)


def test_a_second_cluster_has_a_folder_of_its_own(tmp_path: Path) -> None:
    with running(Options(nodes=2, var=tmp_path, name="east")):
        assert (tmp_path / "simulator" / "east" / "url").exists()
    assert not (tmp_path / "simulator" / "east" / "url").exists()


def test_a_restart_keeps_port_and_credentials(options: Options) -> None:
    with running(options) as first:
        port, token = Client(first).port, first.options.act_token
        version = Client(first).get("/api/v1/nodes", limit=1)["metadata"]["resourceVersion"]
    again = Options(nodes=48, var=options.var, port=port or 0)
    with running(again) as second:
        fleet = Client(second)
        assert (fleet.port, second.options.act_token) == (port, token)
        events = list(fleet.watch("/api/v1/nodes", resourceVersion=version))
        assert events[0]["object"]["code"] == 410


def test_a_taken_port_names_who_has_it(tmp_path: Path) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        options = Options(nodes=2, var=tmp_path, port=sock.getsockname()[1])
        with pytest.raises(PortTaken, match=f"taken by process {os.getpid()}"), running(options):
            pass


def test_the_same_seed_tells_the_same_story(tmp_path: Path) -> None:
    def pods(seed: int) -> list[str]:
        with running(Options(nodes=20, var=tmp_path / str(seed), seed=seed)) as simulator:
            return [p["metadata"]["name"] + p["metadata"]["uid"] for p in Client(simulator).pods()]

    assert pods(3) == pods(3)
    assert pods(3) != pods(4)


def test_every_scenario_loads_and_names_real_faults(tmp_path: Path) -> None:
    assert {"calm", "day", "foreign", "storm12"} <= set(available())
    for name in available():
        with running(Options(nodes=32, var=tmp_path, scenario=name)):
            pass


def test_the_storm_hits_twelve_of_one_rack(options: Options) -> None:
    options.scenario = "storm12"
    with running(options) as simulator:
        world = simulator.world
        assert world is not None
        until(lambda: sum(1 for h in world.hosts.values() if "xid79" in h.faults) == 12)
        assert {h.rack for h in world.hosts.values() if h.faults} == {"r02"}


def test_a_day_breaks_things(options: Options) -> None:
    options.scenario, options.speed = "day", 400
    with running(options) as simulator:
        world = simulator.world
        assert world is not None
        until(lambda: sum(1 for h in world.hosts.values() if h.faults) >= 3)


def test_gangs_finish_and_new_ones_take_their_place(options: Options, tmp_path: Path) -> None:
    file = tmp_path / "work.yaml"
    file.write_text("gang_every: 20")
    options.scenario = str(file)
    with running(options) as simulator:
        fleet = Client(simulator)

        def gangs(phase: str) -> set[str]:
            label = "training.kubeflow.org/job-name"
            pods = fleet.pods(fieldSelector=f"status.phase={phase}", labelSelector=label)
            return {p["metadata"]["labels"][label] for p in pods}

        first, waiting = gangs("Running"), gangs("Pending")
        until(lambda: waiting & gangs("Running"))
        until(lambda: first - gangs("Running") and gangs("Running") - first - waiting)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("evnts: []", "unknown evnts; possible are description, events, gang_every, gangs, start, stream"),
        ("events: [{at: 1, falt: xid79}]", r"events\[0\]: unknown falt"),
        ("events: [{at: 1}]", "fault"),
        ("stream: {kinds: [{fault: xid79}]}", "every"),
        ("[1]", "a mapping is expected"),
        ("a: [", "not YAML"),
    ],
)
def test_a_scenario_with_a_mistake_says_where(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ScenarioError, match=said):
        load(str(file))


def test_unknown_scenarios_and_faults(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there are blink, calm, day"):
        load("nonsense")
    file = tmp_path / "mine.yaml"
    file.write_text("events: [{at: 1, fault: nonsense}]")
    with pytest.raises(ScenarioError, match="unknown fault 'nonsense'"), running(Options(nodes=2, scenario=str(file))):
        pass


def test_the_module_runs_without_django_and_ends_when_asked(tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "fleet.simulator", "--nodes", "20", "--var", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until(lambda: (tmp_path / "simulator" / "url").exists())
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert out.startswith("simulator demo: 20 nodes, scenario calm, http://127.0.0.1:")
    imported = {line.rpartition("|")[2].strip() for line in err.splitlines() if line.startswith("import time:")}
    assert not {name for name in imported if name.split(".")[0] in ("django", "kubernetes", "celery", "aiohttp")}
    assert not {name for name in imported if name.startswith("fleet.") and not name.startswith("fleet.simulator")}


def test_bad_options_are_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "fleet.simulator", "--nodes", "0", "--speed", "0", "--var", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert "--nodes 0" in done.stderr
    assert "--speed 0" in done.stderr
