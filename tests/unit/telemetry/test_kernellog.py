"""Log batches in the shapes that shippers post, and what the lines in them say."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry.kernellog import KernelLine, read_batch, read_time
from fleet.telemetry.kernelsignals import KernelSignal, match

AT = datetime(2026, 5, 1, 12, 0, 0, 500_000, tzinfo=UTC)
LINE = "NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
FLUENT = {"date": AT.timestamp(), "host": "n1", "ident": "kernel", "log": LINE}


@pytest.mark.parametrize(
    "record",
    [
        FLUENT,
        {"timestamp": "2026-05-01T12:00:00.5Z", "host": "n1", "message": LINE, "source_type": "journald"},
        {"ts": AT.timestamp() * 1e3, "hostname": "n1", "msg": LINE},
        {"@timestamp": "2026-05-01T21:00:00.500+09:00", "node": "n1", "message": LINE},
        {"MESSAGE": LINE, "_HOSTNAME": "n1", "__REALTIME_TIMESTAMP": str(int(AT.timestamp() * 1e6))},
        {"time": int(AT.timestamp() * 1e9), "kubernetes": {"node_name": "n1"}, "host": "shipper-pod", "log": LINE},
    ],
)
def test_the_usual_records_mean_the_same_line(record: dict[str, Any]) -> None:
    batch = read_batch(json.dumps([record]).encode())
    assert [(line.node_claim, line.text) for line in batch.lines] == [("n1", LINE)]
    assert abs((batch.lines[0].at or AT.replace(year=1999)) - AT).total_seconds() < 1e-3


@pytest.mark.parametrize("joint", ["array", "lines", "concatenated"])
def test_batches_come_as_array_lines_or_run_together(joint: str) -> None:
    records = [json.dumps({**FLUENT, "log": f"line {number}"}) for number in range(3)]
    body = f"[{','.join(records)}]" if joint == "array" else ("\n" if joint == "lines" else "").join(records)
    assert [line.text for line in read_batch(body.encode()).lines] == ["line 0", "line 1", "line 2"]


def test_a_batch_cut_in_the_middle_keeps_what_is_whole() -> None:
    body = json.dumps([FLUENT, FLUENT, FLUENT]).encode()[:-30]
    batch = read_batch(body)
    assert len(batch.lines) == 2
    assert batch.rejected["cut_json"] == 1


def test_a_broken_line_among_json_lines_loses_only_itself() -> None:
    whole = json.dumps(FLUENT)
    batch = read_batch(f'{whole}\n{{"log": "broken\n{whole}'.encode())
    assert (len(batch.lines), batch.rejected["cut_json"]) == (2, 1)


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        ({"host": "n1"}, "no_text"),
        ({"log": "x"}, "no_host"),
        ({"log": 7, "host": "n1"}, "no_text"),
        (7, "not_an_object"),
    ],
)
def test_what_a_record_lacks_is_counted(record: Any, reason: str) -> None:
    batch = read_batch(json.dumps([record]).encode())
    assert (batch.lines, dict(batch.rejected)) == ([], {reason: 1})


def test_an_unreadable_time_costs_the_time_not_the_line() -> None:
    batch = read_batch(json.dumps([{**FLUENT, "date": "yesterday"}]).encode())
    assert (batch.lines, batch.rejected["bad_time"]) == ([KernelLine("n1", None, LINE)], 1)


@pytest.mark.parametrize("value", [None, True, -1, 0, 1e30, "", "nan", "inf", [], {}, "12:00"])
def test_no_nonsense_is_a_time(value: Any) -> None:
    assert read_time(value) is None


@settings(max_examples=80, deadline=None)
@given(
    st.binary(max_size=300)
    | st.recursive(
        st.none() | st.floats() | st.text(),
        lambda x: st.lists(x) | st.dictionaries(st.sampled_from(["log", "host", "date", "kubernetes", "ts"]), x),
    ).map(lambda x: json.dumps(x).encode())
)
def test_no_batch_raises(body: bytes) -> None:
    read_batch(body)


def test_deep_nesting_is_rejected_not_followed() -> None:
    read_batch(b'{"a":' * 100_000)
    read_batch(b"[" * 100_000)


# -- lines ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        (LINE, KernelSignal("xid", "0000:1b:00", "79", "GPU has fallen off the bus.")),
        (
            "NVRM: Xid (PCI:00000000:1B:00.0): 31, pid=4242, name=python, Ch 00000012, intr 1. MMU Fault",
            KernelSignal("xid", "0000:1b:00", "31", "intr 1. MMU Fault", None, "4242"),
        ),
        ("[  12.5] NVRM: Xid (PCI:0000:c1:00): 63", KernelSignal("xid", "0000:c1:00", "63")),
        (
            "NVRM: Xid (PCI:0000:1b:00): 154, recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
            KernelSignal(
                "xid", "0000:1b:00", "154", "recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
            ),
        ),
        (
            "NVRM: Xid (PCI:0000:1b:00): 149, NETIR_LINK_EVT  Nonfatal XC0 i0 Link 05 (0x1)",
            KernelSignal("xid", "0000:1b:00", "149", "NETIR_LINK_EVT  Nonfatal XC0 i0 Link 05 (0x1)", False),
        ),
        (
            "NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.",
            KernelSignal("off_bus", "0000:1b:00", "79", "fallen off the bus"),
        ),
        (
            "nvidia-nvswitch3: SXid (PCI:0000:c6:00.0): 20034, Fatal, Link 32 LTSSM Fault Up",
            KernelSignal("sxid", "0000:c6:00", "20034", "link 32: LTSSM Fault Up", True),
        ),
        ("nfs: server nfs-01 not responding, still trying", KernelSignal("nfs_stalled", "nfs-01")),
        ("nfs: server nfs-01 OK", KernelSignal("nfs_ok", "nfs-01")),
        (
            "INFO: task python:4242 blocked for more than 120 seconds.",
            KernelSignal("hung_task", "", "", "python for 120 s"),
        ),
        ("lockd: server nfs-01 not responding, still trying", KernelSignal("nfs_stalled", "nfs-01")),
        (
            "NFS: nfs4_reclaim_open_state: Lock reclaim failed!",
            KernelSignal("nfs_lost", "", "", "Lock reclaim failed"),
        ),
        (
            "mlx5_core 0000:1a:00.0: health poll failed",
            KernelSignal("mlx5", "0000:1a:00", "", "health poll failed"),
        ),
        (
            "pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
            KernelSignal("aer", "0000:00:01", "", "Corrected Physical Layer", False),
        ),
        (
            "nvidia 0000:1b:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)",
            KernelSignal("aer", "0000:1b:00", "", "Uncorrected (Fatal) Transaction Layer", True),
        ),
        (
            "nvidia 0000:1b:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal)",
            KernelSignal("aer", "0000:1b:00", "", "Uncorrectable (Non-Fatal)"),
        ),
        (
            "nvme nvme0: I/O 512 QID 4 timeout, reset controller",
            KernelSignal("nvme", "nvme0", "", "timeout, reset controller"),
        ),
        (
            "nvme nvme2: I/O tag 5 (1005) opcode 0x2 (I/O Cmd) QID 3 timeout, aborting req_op:READ(0) size:4096",
            KernelSignal("nvme", "nvme2", "", "timeout, aborting", False),
        ),
        (
            "nvme nvme1: Disabling device after reset failure: -19",
            KernelSignal("nvme", "nvme1", "", "Disabling device after reset failure"),
        ),
        ("EXT4-fs (nvme0n1p2): Remounting filesystem read-only", KernelSignal("read_only", "nvme0n1p2")),
        (
            "XFS (sda1): Filesystem has been shut down due to log error (0x2).",
            KernelSignal("read_only", "sda1"),
        ),
        ("Buffer I/O error on dev sdb1, logical block 5, lost async page write", KernelSignal("io_error", "sdb1")),
        ("blk_update_request: I/O error, dev nvme0n1, sector 123 op 0x0:(READ)", KernelSignal("io_error", "nvme0n1")),
        ("critical medium error, dev sdc, sector 7 op 0x0:(READ)", KernelSignal("io_error", "sdc")),
        ("Out of memory: Killed process 812 (python3) total-vm:1kB", KernelSignal("oom", "", "", "python3")),
        (
            "mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400",
            KernelSignal("mce", "", "", "CPU 3: Machine Check Exception: 5 Bank 7: be00000000800400", True),
        ),
        (
            "mce: [Hardware Error]: Machine check events logged",
            KernelSignal("mce", "", "", "Machine check events logged", False),
        ),
        ("{1}[Hardware Error]: event severity: corrected", KernelSignal("mce", "", "", "corrected event", False)),
        ("{1}[Hardware Error]: event severity: fatal", KernelSignal("mce", "", "", "fatal event", True)),
        (
            "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0",
            KernelSignal("mce", "", "MC0", "1 UE memory read error on CPU_SrcID#0_MC#0", True),
        ),
    ],
)
def test_a_line_says(text: str, signal: KernelSignal) -> None:
    assert match(text) == signal


@pytest.mark.parametrize(
    "text",
    [
        "",
        "usb 1-1: new device",
        "Memory cgroup out of memory: Killed process 9 (train)",
        "NVRM: loading NVIDIA UNIX",
        "NVRM: Xid (PCI:",
        "Xid 79",
    ],
)
def test_most_lines_say_nothing(text: str) -> None:
    assert match(text) is None


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=80),
    st.sampled_from(
        [
            "NVRM: Xid (PCI:0000:1b:00): 79, ",
            "NVRM: ",
            "nfs: server ",
            "SXid",
            "mlx5_core ",
            "nvme nvme0: ",
            "0000:1b:00.0: PCIe Bus Error: severity=",
            "XFS (a): ",
            "Out of memory: ",
            "[Hardware Error]: ",
            "EDAC M: ",
        ]
    ),
)
def test_no_line_raises(tail: str, head: str) -> None:
    match(head + tail)
