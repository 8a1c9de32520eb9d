"""Which records are the kernel's, whose they are and when their lines were written, whoever shipped them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fleet.telemetry import loki
from fleet.telemetry.kernellog import Batch, read_batch
from tests.unit.telemetry.test_loki import as_json, as_protobuf

AT = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
LINE = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
RECORD: dict[str, Any] = {"date": AT.timestamp(), "host": "n1", "log": LINE}


def read(*records: dict[str, Any]) -> Batch:
    return read_batch(json.dumps(records).encode())


@pytest.mark.parametrize(
    "record",
    [
        {"HOSTNAME": "n1", "MESSAGE": LINE, "TRANSPORT": "kernel",
         "REALTIME_TIMESTAMP": str(int(AT.timestamp() * 1e6))},
        {"_hostname": "n1", "message": LINE, "__realtime_timestamp": int(AT.timestamp() * 1e6)},
        {"_HOSTNAME": "n1", "MESSAGE": list(LINE.encode()), "__REALTIME_TIMESTAMP": str(int(AT.timestamp() * 1e6))},
        {"_HOSTNAME": "n1", "MESSAGE": [LINE, "again"], "__REALTIME_TIMESTAMP": str(int(AT.timestamp() * 1e6))},
        {"@timestamp": AT.isoformat(), "host": {"name": "n1", "ip": ["10.0.0.7"]}, "message": LINE},
        {"version": "1.1", "host": "n1", "short_message": LINE, "timestamp": AT.timestamp(), "level": 3},
        {"date": AT.timestamp(), "nodeName": "n1", "log": f"\x1b[32m{LINE[:6]}\x1b[0m\x1b[33m{LINE[6:]}\x1b[0m\r\n"},
        {"timestamp": AT.isoformat(), "hostname": "n1", "appname": "kernel", "facility": "kern", "message": LINE},
        {"date": AT.timestamp(), "log": f"2026-11-30T12:00:00+00:00 n1 kernel: {LINE}"},
    ],
)  # fmt: skip
def test_however_a_shipper_spells_a_record_it_is_the_same_line(record: dict[str, Any]) -> None:
    batch = read(record)
    assert [(line.node_claim, line.at, line.text[-len(LINE) :]) for line in batch.lines] == [("n1", AT, LINE)]
    assert not batch.rejected


@pytest.mark.parametrize(
    "mark",
    [
        {"_TRANSPORT": "stdout", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "syslog"},
        {"SYSLOG_IDENTIFIER": "gpu-monitor"},
        {"SYSLOG_FACILITY": "3"},
        {"facility": "user"},
        {"appname": "trainer", "facility": "kern"},
        {"CONTAINER_NAME": "train"},
        {"kubernetes": {"node_name": "n1", "container_name": "train"}, "ident": "kernel"},
        {"container": {"name": "train"}},
    ],
)
def test_what_another_wrote_is_not_the_kernels(mark: dict[str, Any]) -> None:
    batch = read({**RECORD, **mark}, RECORD)
    assert (len(batch.lines), dict(batch.rejected)) == (1, {"not_kernel": 1})


@pytest.mark.parametrize(
    "mark",
    [
        {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "3"},
        {"ident": "kernel", "facility": "user"},
        {"programname": "kernel:"},
        {"facility": 0},
        {"unit": "sshd.service"},  # some shippers leave that of the record before
        {"source_type": "journald", "job": "node"},
    ],
)
def test_what_says_kernel_or_nothing_is_the_kernels(mark: dict[str, Any]) -> None:
    assert len(read({**RECORD, **mark}).lines) == 1


@pytest.mark.parametrize("labels", [{"container": "train"}, {"transport": "stdout"}])
def test_the_labels_of_a_stream_tell_the_writer_too(labels: dict[str, str]) -> None:
    inside = json.dumps({"log": LINE, "host": "n2", "ident": "kernel", "container": "", "transport": "kernel"})
    for read_one, written in ((loki.read_json, as_json), (loki.read_protobuf, as_protobuf)):
        batch = read_one(written({"host": "n1", **labels}, LINE))
        assert (batch.lines, dict(batch.rejected)) == ([], {"not_kernel": 1})
    assert not loki.read_json(as_json({"host": "n1", **labels}, inside)).lines


def test_each_line_of_a_record_is_one() -> None:
    batch = read({**RECORD, "log": f"usb 1-1: gone\r\n\n[  1.5] {LINE}\nfrom an app: {LINE}"})
    assert [line.text for line in batch.lines] == ["usb 1-1: gone", f"[  1.5] {LINE}", f"from an app: {LINE}"]
    assert {line.at for line in batch.lines} == {AT}
    spelled = read({**RECORD, "log": "NVRM: The NVIDIA GPU 0000:1b:00.0\\x0aNVRM: installed in this system has"})
    assert [line.text[:13] for line in spelled.lines] == ["NVRM: The NVI", "NVRM: install"]


@pytest.mark.parametrize(
    ("head", "at"),
    [
        ("2026-11-28T09:00:00+09:00 n1 kernel: ", datetime(2026, 11, 28, 0, 0, tzinfo=UTC)),
        ("[2026-11-28T00:00:00,000000+00:00] ", datetime(2026, 11, 28, 0, 0, tzinfo=UTC)),
        ("Nov 28 00:00:00 n1 kernel: ", datetime(2026, 11, 28, 12, 0, tzinfo=UTC)),
        ("[Sat Nov 28 00:00:00 2026] ", datetime(2026, 11, 28, 12, 0, tzinfo=UTC)),
        ("Dec  5 00:00:00 n1 kernel: ", datetime(2025, 12, 5, 12, 0, tzinfo=UTC)),
        ("Nov 30 11:59:00 n1 kernel: ", AT),  # in some zone it is not over yet
        ("Nov 30 23:59:00 n1 kernel: ", AT),
        ("2026-12-01T00:00:00Z n1 kernel: ", AT),
        ("[  12.5] ", AT),
        ("Feb 30 00:00:00 n1 kernel: ", AT),
        ("2026-13-01T00:00:00Z n1 kernel: ", AT),
    ],
)
def test_a_line_that_was_read_late_is_as_old_as_it_says_itself(head: str, at: datetime) -> None:
    (line,) = read({**RECORD, "log": head + LINE}).lines
    assert line.at == at


def test_a_record_without_a_time_has_that_of_its_line() -> None:
    (line,) = read({"host": "n1", "log": f"2026-11-30T12:00:00Z n1 kernel: {LINE}"}).lines
    assert line.at == AT
    (line,) = read({"host": "n1", "log": f"Nov 30 12:00:00 n1 kernel: {LINE}"}).lines
    assert line.at is None
    (line,) = read({"host": "n1", "log": f"[Mon Nov 30 12:00:00 2026] {LINE}"}).lines
    assert line.at == AT + timedelta(hours=12)


def test_every_host_that_a_record_names_is_told() -> None:
    (line,) = read({**RECORD, "hostname": "relay", "log": f"Nov 30 12:00:00 n7 kernel: {LINE}"}).lines
    assert (line.node_claim, line.others) == ("n1", ("relay", "n7"))
    (line,) = read({**RECORD, "kubernetes": {"node_name": "n2"}}).lines
    assert (line.node_claim, line.others) == ("n2", ())


@pytest.mark.parametrize(
    ("told", "boot"),
    [
        ({"_BOOT_ID": "0F1E2D3C4B5A69788796A5B4C3D2E1F0"}, "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"),
        ({"boot_id": "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"}, "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"),
        ({"BOOT_ID": "last"}, ""),
        ({"_BOOT_ID": 7}, ""),
        ({}, ""),
    ],
)
def test_the_boot_of_a_line_is_told_as_nodes_tell_theirs(told: dict[str, Any], boot: str) -> None:
    (line,) = read({**RECORD, **told}).lines
    assert line.boot == boot
