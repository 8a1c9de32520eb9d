"""The tables of driver codes: complete, and read as the line says."""

from __future__ import annotations

import csv

import pytest

from fleet.health.rules import nvlink, sxid, xid
from fleet.health.rules.catalogue import DEFAULTS
from fleet.health.rules.lines import LINES
from tests.unit.health_rules.world import World, told

SXID = "nvidia-nvswitch0: SXid (PCI:0000:c2:00.0): {code}, {severity}, Link 12 something went wrong"


def test_the_tables_are_complete() -> None:
    assert all(xid.meaning(code).source != "no published source" for code in range(1, 177))
    with sxid.TABLE.open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 398
    with nvlink.TABLE.open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 95


@pytest.mark.parametrize(
    ("code", "detail", "action"),
    [
        (145, "RLW_SRC_TRACK Fatal XC1 i0 Link 05 (0x00000007 0x00000001 0x0 0x0)", "reset_gpu"),
        (145, "RLW_SRC_TRACK Nonfatal XC1 i0 Link 05 (0x00000007 0x00000002 0x0 0x0)", "ignore"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 05 (0x00000004 0x00000002 0x0 0x0)", "restart_app"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 05 (0x00000082 0x00000002 0x0 0x0)", "restart_app"),
        (144, "SAW_MVB Fatal XC0 i0 Link -1 (0x00000001 0x00000002 0x0 0x0)", "reset_gpu"),
        (145, "RLW_REMAP Fatal XC1 i0 Link 05 (0xffffffff 0x00000002 0x0 0x0)", "reset_gpu"),
        (145, "RLW_REMAP Nonfatal XC1 i0 Link 05 (0xffffffff 0x00000002 0x0 0x0)", "monitor"),
    ],
)
def test_nvlink_5_words_are_decoded_and_else_the_line_is_believed(code: int, detail: str, action: str) -> None:
    fatal = " Fatal" in detail
    assert xid.meaning(code, detail, fatal).action == action


@pytest.mark.parametrize(
    ("detail", "action"),
    [
        ("GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "reset_gpu"),
        ("GPU recovery action changed from 0x2 (Node Reboot Required) to 0x0 (None)", "ignore"),
        ("GPU recovery action changed from 0x1 (GPU Reset Required) to 0x2 (Node Reboot Required)", "reboot_node"),
        ("GPU recovery action changed from 0x0 (None) to 0x3 (Drain P2P)", "monitor"),
    ],
)
def test_154_asks_for_what_it_changed_to(detail: str, action: str) -> None:
    assert xid.meaning(154, detail).action == action


@pytest.mark.parametrize(
    ("code", "severity", "action", "word"),
    [
        (10003, "Fatal", "reboot_node", "unhealthy"),
        (10003, "Non-fatal", "monitor", "degraded"),
        (10001, "Non-fatal", "ignore", None),
        (10001, "Fatal", "contact_support", "unhealthy"),
        (99999, "Fatal", "contact_support", "unhealthy"),
    ],
)
def test_the_severity_in_an_sxid_line_outranks_the_table(code: int, severity: str, action: str, word: str) -> None:
    what = sxid.meaning(code, severity == "Fatal")
    assert (what.action, what.severity) == (action, word)


def test_a_fatal_sxid_is_a_finding_of_its_switch_until_a_boot() -> None:
    world = World()
    (edge,) = world.say(SXID.format(code=10003, severity="Fatal"))
    assert (edge.cause, edge.device, edge.latched) == ("sxid-10003", "switch:0000:c2:00", True)
    world.pass_time(4000)
    assert told(world.cycle()) == []
    world.pass_time(5)
    world.reboot()
    assert told(world.cycle()) == [("cleared", "sxid-10003", "switch:0000:c2:00")]


def test_an_old_sxid_line_is_history() -> None:
    assert World().say(SXID.format(code=10003, severity="Fatal"), ago=10) == []


@pytest.mark.parametrize("line", LINES.values(), ids=list(LINES))
def test_every_line_rule_is_in_the_catalogue_and_can_be_told(line: object) -> None:
    rule, title = line.rule, line.title  # type: ignore[attr-defined]
    assert rule in DEFAULTS
    assert title % {"part": "x", "detail": "y"}


def test_a_failing_adapter_is_found_by_its_line_and_stays() -> None:
    world = World()
    (edge,) = world.say("mlx5_core 0000:3b:00.0: poll_health:795:(pid 0): device's health compromised - unrecoverable")
    assert (edge.cause, edge.device, edge.action_class) == ("log-mlx5", "pci:0000:3b:00", "reboot_node")
    world.pass_time(4000)
    assert world.cycle() == []


def test_a_task_that_hung_once_is_over_after_a_while() -> None:
    world = World()
    world.say("INFO: task kworker/u256:3:4711 blocked for more than 120 seconds.")
    assert world.open() == {("n1", "", "log-hung-task")}
    world.pass_time(601)
    assert told(world.cycle()) == [("cleared", "log-hung-task", "")]


@pytest.mark.parametrize(
    ("text", "cause", "device", "severity"),
    [
        ("pcieport 0000:00:01.0: AER: PCIe Bus Error: severity=Corrected, type=Data Link Layer",
         "log-aer", "pci:", "degraded"),
        ("nvme 0000:5e:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
         "log-aer", "pci:0000:5e:00", "unhealthy"),
        ("nvme nvme3: Disabling device after reset failure: -19", "log-nvme", "disk:nvme3", "unhealthy"),
        ("EXT4-fs (md0): Remounting filesystem read-only", "log-read-only", "disk:md0", "unhealthy"),
        ("Buffer I/O error on dev nvme1n1, logical block 7, async page read", "log-io-error", "disk:nvme1n1",
         "degraded"),
        ("Out of memory: Killed process 4711 (python) total-vm:1kB", "log-oom", "", "degraded"),
        ("NFS: nfs4_reclaim_open_state: Lock reclaim failed!", "log-nfs-lost", "", "unhealthy"),
        ("mce: [Hardware Error]: CPU 3: Machine Check Exception: 5 Bank 7: be0000", "log-mce", "", "unhealthy"),
    ],
)  # fmt: skip
def test_each_complaint_of_the_kernel_is_a_finding(text: str, cause: str, device: str, severity: str) -> None:
    world = World()
    (edge,) = world.say(text)
    assert (edge.cause, edge.severity) == (cause, severity)
    assert edge.device.startswith(device)
    assert world.say("NVRM: nothing of interest") == []
    world.pass_time(4000)
    assert (world.cycle() == []) == edge.latched, "a latched one stays, another is over"
    assert world.say(text, ago=10**6) == [], "history"


def test_what_a_pod_did_to_its_own_memory_limit_is_no_finding() -> None:
    assert World().say("Memory cgroup out of memory: Killed process 4711 (python) total-vm:1kB") == []
