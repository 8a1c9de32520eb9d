"""Both ends of a cable: how they are joined, what the far end counts, and what is never guessed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.ports.fabric import AlarmSeen, EndSeen
from fleet.telemetry import fabrictext, names
from fleet.telemetry.cables import join, switch_name
from fleet.telemetry.fabricintake import JOB, FabricIntake
from fleet.telemetry.frame import Frame
from fleet.telemetry.series import AMBIGUOUS, Ambiguous

LEAF = EndSeen("506b4b03005c2740", "35", "leaf-7:35")
SWITCH = 'guid="0x506b4b03005c2740",switch="leaf-7"'
COUNTER, UPLINK = "infiniband_switch_port_", "infiniband_switch_uplink_info"
EXPORTER = f"""# TYPE {COUNTER}symbol_error_total counter
{COUNTER}symbol_error_total{{{SWITCH},port="35"}} 12
{COUNTER}symbol_error_total{{{SWITCH},port="36"}} 99
{COUNTER}link_downed_total{{{SWITCH},port="35"}} NaN
{COUNTER}transmit_wait_total{{{SWITCH},port="35"}} 5
{UPLINK}{{{SWITCH},port="35",uplink="gpu-1 mlx5_3",uplink_guid="0xcc02a6",uplink_port="1",uplink_type="CA"}} 1
{UPLINK}{{{SWITCH},port="36",uplink="spine-1",uplink_guid="0xb07320",uplink_port="1",uplink_type="SW"}} 1
""".encode()


def resolve(name: str) -> str | Ambiguous | None:
    known: dict[str, str | Ambiguous] = {"gpu-1": "gpu-1", "gpu-1.example.com": "gpu-1", "gpu-2": "gpu-2"}
    return AMBIGUOUS if name == "twin" else known.get(name)


def hca(name: str, guid: str = "0000000000000001", port: str = "1") -> EndSeen:
    return EndSeen(guid, port, name)


@pytest.mark.parametrize("name", ["gpu-1 mlx5_3", "gpu-1.example.com mlx5_3"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_cable_has_two_ends_in_either_order(name: str, turned: bool) -> None:
    link = (LEAF, hca(name)) if turned else (hca(name), LEAF)
    (cable,) = join([link], resolve, {}).cables.values()
    assert (cable.node, cable.port, cable.switch, cable.switch_port) == ("gpu-1", "mlx5_3/1", "leaf-7", "35")


@pytest.mark.parametrize("name", ["gpu-1 HCA-4", "gpu-1"])
def test_an_adapter_that_is_only_numbered_is_joined_by_its_guid_and_never_guessed(name: str) -> None:
    found = join([(hca(name), LEAF)], resolve, {})
    assert not found.cables and found.unjoined == {"unnamed_hca": 1} and name in found.example
    (cable,) = join([(hca(name), LEAF)], resolve, {"0000000000000001": ("gpu-1", "mlx5_9")}).cables.values()
    assert cable.port == "mlx5_9/1"


def test_links_of_others_are_none_of_ours_and_no_trouble() -> None:
    found = join([(LEAF, EndSeen("2", "1", "spine-1:1")), (hca("stranger mlx5_0"), LEAF)], resolve, {})
    assert not found.cables and not found.unjoined
    assert join([(hca("twin mlx5_0"), LEAF)], resolve, {}).unjoined == {"ambiguous_node": 1}


def test_one_port_on_two_cables_is_on_neither() -> None:
    other = EndSeen("506b4b03005c2740", "36", "leaf-7:36")
    found = join([(hca("gpu-1 mlx5_3"), LEAF), (hca("gpu-1 mlx5_3"), other)], resolve, {})
    assert not found.cables and found.unjoined == {"port_twice": 1}


@pytest.mark.parametrize(
    ("said", "name"), [("leaf-7:35", "leaf-7"), ("MF0;leaf-7:MQM9700/U1", "leaf-7"), ("leaf-7", "leaf-7"), ("", "g")]
)
def test_a_switch_has_its_own_name(said: str, name: str) -> None:
    assert switch_name(EndSeen("g", "35", said)) == name


def read(intake: FabricIntake, body: bytes, mono: float = 10.0) -> int:
    told = fabrictext.sort_out(body)
    intake.counts.update(told.counts)
    if told.links is not None:
        intake.know(told.links)
    return sum(intake.text(piece, mono, 1000.0 + mono) for piece in told.pieces)


def test_an_exporter_tells_the_far_end_of_our_port() -> None:
    frame = Frame()
    intake = FabricIntake(frame, resolve, 30.0)
    assert read(intake, EXPORTER) == 1
    assert frame.value(names.SWITCH_SYMBOL, "gpu-1", "mlx5_3/1") == 12
    device = frame.device("gpu-1", "mlx5_3/1")
    assert device is not None and device.attrs == {"switch": "leaf-7", "switch_port": "35"}
    assert intake.counts == {"nan": 1}
    assert len(frame.rows(names.SWITCH_SYMBOL)) == 1, "a port between switches is nobody's"


@pytest.mark.parametrize(
    "labels",
    [
        'node_guid="0x506b4b03005c2740",port_guid="0x506b4b03005c2740",port_num="35"',
        'source="10.0.0.1",port_id="0x506b4b03005c2740_35"',
    ],
)
@pytest.mark.parametrize("name", ["SymbolErrorCounterExtended", "infiniband_symbol_error_counter_extended"])
def test_the_managers_own_spelling_is_known(labels: str, name: str) -> None:
    frame = Frame()
    intake = FabricIntake(frame, resolve, 30.0)
    intake.know([(LEAF, hca("gpu-1 mlx5_3"))])
    body = f"# TYPE {name} counter\n{name}{{{labels}}} 41 1700000000000\neffective_ber{{{labels}}} 2e-11\n"
    assert read(intake, body.encode()) == 2
    assert frame.value(names.SWITCH_SYMBOL, "gpu-1", "mlx5_3/1") == 41
    assert frame.value(names.SWITCH_BER, "gpu-1", "mlx5_3/1") == 2e-11


def test_a_silent_fabric_makes_no_node_silent() -> None:
    frame = Frame()
    read(FabricIntake(frame, resolve, 30.0), EXPORTER)
    assert ("gpu-1", JOB) in frame.target_index
    assert not frame.stale_targets(1e9).any()
    assert not frame.fresh_rows(frame.rows(names.SWITCH_SYMBOL), 1e9).any()


def test_a_moved_cable_is_told_of_its_new_port_only() -> None:
    frame = Frame()
    intake = FabricIntake(frame, resolve, 30.0)
    read(intake, EXPORTER)
    moved = EXPORTER.replace(b'uplink="gpu-1 mlx5_3"', b'uplink="gpu-2 mlx5_5"').replace(b"} 12", b"} 13")
    read(intake, moved, 40.0)
    assert frame.value(names.SWITCH_SYMBOL, "gpu-1", "mlx5_3/1") == 12
    assert frame.value(names.SWITCH_SYMBOL, "gpu-2", "mlx5_5/1") == 13


def test_an_alarm_stands_until_it_is_told_no_more() -> None:
    frame = Frame()
    intake = FabricIntake(frame, resolve, 30.0)
    intake.know([(LEAF, hca("gpu-1 mlx5_3"))])
    alarm = AlarmSeen(LEAF.guid, "35", "110", "Symbol error", "Warning")
    assert intake.raised([alarm, AlarmSeen("9", "1", "110", "", "")], 1.0, 1.0) == 1
    assert frame.value(names.FABRIC_ALARM, "gpu-1", "mlx5_3/1") == 1
    assert frame.devices[0].attrs["alarms"] == "Symbol error (110)"
    assert intake.counts == {"alarm_of_no_cable": 1}
    intake.raised([], 2.0, 2.0)
    assert frame.value(names.FABRIC_ALARM, "gpu-1", "mlx5_3/1") == 0


def test_an_aggregation_manager_speaks_for_itself() -> None:
    body = b'active_jobs{am="1"} 3\nagg_nodes_in_invalid_state 2\nmetadata_timestamp 1700000000000000\nbanana\n'
    assert fabrictext.sharp(body) == fabrictext.SharpSeen(2.0, 3.0, 1_700_000_000.0)
    assert fabrictext.sharp(b"<html>") == fabrictext.SharpSeen(None, None, None)


@settings(deadline=None)
@given(st.binary(max_size=400) | st.integers(0, len(EXPORTER)).map(lambda at: EXPORTER[:at] + b"\xff" + EXPORTER[at:]))
def test_any_bytes_leave_the_frame_whole(body: bytes) -> None:
    frame = Frame()
    read(FabricIntake(frame, resolve, 30.0), body)
    fabrictext.sharp(body)
    rows = frame.rows(names.SWITCH_SYMBOL)
    assert np.isfinite(frame.r.value[rows][frame.r.mono[rows] > 0]).all()
