"""A cable is one thing with two ends: whichever counts, one incident names both; a manager that fails costs itself."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from fleet import wiring
from fleet.health.models import Incident, Signal
from fleet.inventory.models import Cluster
from fleet.observer.conditions import Conditions
from fleet.observer.fabric import Fabric
from fleet.observer.judge import Judge
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.observer.targetlist import TargetList
from fleet.telemetry import names
from fleet.telemetry.intake import Intake
from tests.adapters.prometheus.fake_api import FakeApi, running
from tests.builders import TestClock, a_node
from tests.domain.observer.conftest import know

pytestmark = pytest.mark.django_db
NODE, PORT, LEAF = "gpu-r01-01", "mlx5_3/1", "506b4b03005c2740"
LINKS, ALARMS = "/ufmRest/resources/links", "/ufmRest/app/alarms"


def a_link(node: str, device: str, port: int) -> dict[str, str]:
    return {
        "source_guid": f"{port:016x}", "source_port": "1", "source_port_node_description": f"{node} {device}",
        "destination_guid": LEAF, "destination_port": str(port), "destination_port_node_description": f"leaf-7:{port}",
    }  # fmt: skip


def an_alarm(port: int) -> dict[str, object]:
    return {"related_object_name": f"{LEAF}_{port}", "event_type": 110, "name": "Symbol error", "severity": "Warning"}


class Data:
    """A fabric and the exporters of its nodes; moves the clock and counts."""

    def __init__(self, api: FakeApi, session: Session, judge: Judge, clock: TestClock, place: Path) -> None:
        self.api, self.session, self.judge, self.clock = api, session, judge, clock
        self.cables = {(NODE, "mlx5_3"): 35}
        self.far: dict[int, dict[str, float]] = {}
        self.near: dict[str, float] = {}
        self.alarms: list[int] = []
        secret = place / "ufm.secret"
        secret.write_text("admin:hunter2")
        source = {"ufm": api.url, "credential": f"file:{secret}", "telemetry": f"{api.url}/metrics"}
        source |= {"sharp": f"{api.url}/sharp"}
        (place / "targets.yml").write_text(yaml.safe_dump({"version": 1, "fabric": [{**source, "every": 15}]}))
        session.cluster.targets_file = str(place / "targets.yml")
        self.conditions, self.refusals = Conditions([]), Refusals()
        self.listed = TargetList(session, self.conditions, self.resolve)
        self.listed.look()
        self.fabric = Fabric(session, judge.frame, self.listed, self.conditions, self.refusals, wiring.fabric)
        self.intake = Intake(judge.frame)

    def resolve(self, name: str) -> str | None:
        return name if name in self.session.node_ids else None

    def tell(self) -> None:
        self.api.at[LINKS] = json.dumps([a_link(*end, port) for end, port in self.cables.items()]).encode()
        self.api.at[ALARMS] = json.dumps([an_alarm(port) for port in self.alarms]).encode()
        lines = []
        for port in self.cables.values():
            said = {"SymbolErrorCounterExtended": 5, "LinkDownedCounterExtended": 0, **self.far.get(port, {})}
            lines += [f'{name}{{node_guid="0x{LEAF}",port_num="{port}"}} {value}' for name, value in said.items()]
        self.api.at["/metrics"] = ("\n".join(lines) + "\n").encode()
        at = self.clock.now().timestamp()
        self.api.at["/sharp"] = f"metadata_timestamp {at}\nactive_jobs 2\nagg_nodes_in_invalid_state 0\n".encode()

    def pass_by(self, seconds: float = 15.0) -> None:
        self.clock.tick(seconds)
        self.tell()
        self.read()

    def read(self) -> None:
        asyncio.run(self.fabric.once())
        near = {names.IB_SYMBOL: 7.0, names.IB_DOWNED: 1.0, **self.near}
        text = "".join(f'{name}{{device="mlx5_3",port="1"}} {value}\n' for name, value in near.items())
        target = self.judge.frame.target(NODE, "node", 15.0)
        self.intake.scraped(target, text.encode(), self.clock.monotonic(), self.clock.now().timestamp())
        self.judge.cycle()
        while self.judge.commit():
            pass
        self.judge.settle()

    def said(self) -> dict[str, str]:
        listed = self.conditions.changed(self.clock.monotonic() + 1e6) or []
        return {entry["code"].partition(":")[0]: entry["text"] for entry in listed}


@pytest.fixture
def data(session: Session, judge: Judge, clock: TestClock, tmp_path: Path) -> Iterator[Data]:
    with running(FakeApi()) as api:
        made = Data(api, session, judge, clock, tmp_path)
        for _ in range(3):
            made.pass_by()
        yield made


def test_errors_that_only_the_switch_counts_open_an_incident_that_names_both_ends(data: Data) -> None:
    data.far[35] = {"SymbolErrorCounterExtended": 5 + 700}
    data.pass_by()
    incident = Incident.objects.get()
    assert incident.node is not None and (incident.node.name, incident.device) == (NODE, PORT)
    assert f"{PORT} ↔ leaf-7/35" in incident.title and "switch's end" in incident.title
    assert incident.evidence["cable"] == {"node": NODE, "port": PORT, "switch": "leaf-7", "switch_port": "35"}
    assert incident.evidence["counted_by"] == "switch"


def test_both_ends_of_a_cable_are_one_incident_however_late_the_second(data: Data) -> None:
    data.near = {names.IB_SYMBOL: 7.0 + 700}
    data.pass_by()
    data.pass_by(200)
    data.far[35] = {"SymbolErrorCounterExtended": 5 + 900, "LinkDownedCounterExtended": 3}
    data.alarms = [35]
    for _ in range(4):
        data.pass_by()
    incident = Incident.objects.get()
    told = {signal.rule: signal.evidence["counted_by"] for signal in Signal.objects.filter(incident=incident)}
    assert told["ib-symbol"] == "node" and told["ib-switch-symbol"] == "switch"
    assert told["ib-switch-flap"] == "switch" and told["ib-alarm"] == "switch"
    alarm = Signal.objects.get(rule="ib-alarm")
    assert "Symbol error (110)" in alarm.title and alarm.evidence["alarms"] == "Symbol error (110)"
    data.alarms = []
    for _ in range(3):
        data.pass_by()
    alarm.refresh_from_db()
    assert alarm.cleared_at is not None


def test_two_cables_of_a_node_are_two_faults(data: Data) -> None:
    data.cables[NODE, "mlx5_4"] = 36
    data.pass_by()
    data.pass_by()
    data.far = {port: {"SymbolErrorCounterExtended": 5 + 700} for port in (35, 36)}
    data.pass_by()
    assert set(Incident.objects.values_list("device", flat=True)) == {PORT, "mlx5_4/1"}


def test_many_cables_of_one_leaf_are_the_leafs_fault(data: Data, cluster: Cluster, session: Session) -> None:
    others = [f"gpu-r0{rack}-09" for rack in range(2, 7)]
    for name in others:
        a_node(cluster, name, leaf="elsewhere")
    know(session)
    data.judge.read_facts()
    data.cables |= {(name, "mlx5_3"): 40 + number for number, name in enumerate(others)}
    data.pass_by()
    data.pass_by()
    data.far = {port: {"SymbolErrorCounterExtended": 5 + 700} for port in data.cables.values()}
    data.pass_by()
    incident = Incident.objects.get(node=None)
    assert (incident.scope, incident.place, incident.members.count()) == ("leaf", "leaf-7", 6)
    assert not Incident.objects.filter(node__isnull=False, state=Incident.OPEN).exists()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, b"<html>admin:hunter2</html>", "did not accept the credential"),
        (500, b"", "cannot answer now"),
        (302, b"", "did not accept the credential"),
        (200, b"<html>log in</html>", "gave no answer of the UFM API"),
        (200, b'[{"source_guid": "0001", ', "gave no answer of the UFM API"),
    ],
)
def test_a_manager_that_fails_is_unknown_and_takes_nothing_else_with_it(
    data: Data, status: int, body: bytes, said: str
) -> None:
    data.clock.tick(15)
    data.tell()
    data.api.status, data.api.at[LINKS], data.api.at[ALARMS] = status, body, body
    data.near = {names.IB_SYMBOL: 7.0 + 700}
    data.read()
    told = data.said()
    assert said in told["fabric_links"] and said in told["fabric_alarms"]
    assert not any("hunter2" in text for text in told.values())
    assert {refusal.source for refusal in data.refusals.pending} == {"fabric"}
    assert Incident.objects.get().evidence["counted_by"] == "node", "the node's own end is judged all the same"
    data.api.status = 200
    data.pass_by()
    assert not any(code.startswith("fabric_") for code in data.said())


def test_a_fabric_that_is_silent_makes_no_node_unknown(data: Data) -> None:
    data.api.status = 500
    for _ in range(10):
        data.pass_by()
    assert not data.judge.frame.stale_targets(data.clock.monotonic()).any()
    assert not Incident.objects.exists()


def test_cables_that_cannot_be_joined_are_said(data: Data) -> None:
    data.cables[NODE, "HCA-5"] = 36
    data.pass_by()
    assert "1 cables" in data.said()["fabric_cables"] and "HCA-5" in data.said()["fabric_cables"]


def test_the_aggregation_manager_is_heard(data: Data) -> None:
    assert not any(code.startswith("sharp_") for code in data.said())
    data.tell()
    data.api.at["/sharp"] = b"metadata_timestamp 1000\nactive_jobs 2\nagg_nodes_in_invalid_state 3\n"
    data.read()
    told = data.said()
    assert "nothing new" in told["sharp_stale"] and "3 aggregation nodes" in told["sharp_invalid"]
    data.tell()
    data.api.at["/sharp"] = b"<html>"
    data.read()
    assert "tells nothing of a SHARP" in data.said()["sharp_stale"]


def test_a_source_that_is_listed_no_more_is_asked_no_more(data: Data, tmp_path: Path) -> None:
    data.api.status = 500
    data.pass_by()
    assert data.said()
    (tmp_path / "targets.yml").write_text("version: 1\n")
    data.listed.look()
    asked = len(data.api.asked)
    data.pass_by()
    assert len(data.api.asked) == asked and not data.said()
