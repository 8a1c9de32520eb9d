"""A version that became another is told once, by whichever way the series came, and nothing else is a change."""

from __future__ import annotations

import pytest

from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.versions import KEPT, Versions
from tests.unit.telemetry.test_gleaning import Store
from tests.unit.telemetry.test_gleaning import gpu as gleaned
from tests.unit.telemetry.test_pushintake import Pusher
from tests.unit.telemetry.writes import gpu

WALL = 1_800_000_000.0


class Scraped:
    """One exporter of node n1, scraped every 15 s."""

    def __init__(self, job: str = "node", frame: Frame | None = None) -> None:
        self.frame = frame or Frame()
        self.intake = Intake(self.frame, {"n1": "n1", "n2": "n2"}.get)
        self.target = self.frame.target("n1", job, 15.0)
        self.mono = 100.0

    def says(self, *lines: str) -> None:
        self.mono += 15
        body = "".join(f"{line}\n" for line in (*lines, "node_time_seconds 1.8e9"))
        self.intake.scraped(self.target, body.encode(), self.mono, WALL + self.mono)

    @property
    def changed(self) -> list[tuple[str, str]]:
        return self.frame.versions.changed()


def build(version: str, name: str = "node_exporter") -> str:
    return f'{name}_build_info{{version="{version}",goversion="go1.22"}} 1'


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (build("1.8.2"), build("1.9.0"), "the node exporter became 1.9.0"),
        (build("3.3", "dcgm_exporter"), build("4.2", "dcgm_exporter"), "the dcgm exporter became 4.2"),
        ('node_uname_info{release="6.8"} 1', 'node_uname_info{release="6.11"} 1', "the kernel became 6.11"),
        ('node_dmi_info{bios_version="2.1"} 1', 'node_dmi_info{bios_version="2.4"} 1', "the BIOS became 2.4"),
        (
            'node_infiniband_info{device="mlx5_0",firmware_version="28.39"} 1',
            'node_infiniband_info{device="mlx5_0",firmware_version="28.43"} 1',
            "the InfiniBand firmware became 28.43",
        ),
        (
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",DCGM_FI_DRIVER_VERSION="550.90"} 40',
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",DCGM_FI_DRIVER_VERSION="570.86"} 40',
            "the GPU driver became 570.86",
        ),
        (
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",DCGM_FI_DEV_VBIOS_VERSION="96.00.1"} 40',
            'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-0",DCGM_FI_DEV_VBIOS_VERSION="96.00.2"} 40',
            "the VBIOS became 96.00.2",
        ),
    ],
)
def test_what_a_scrape_tells_anew_is_a_change_once(before: str, after: str, told: str) -> None:
    exporter = Scraped()
    exporter.says(before)
    exporter.says(before)
    assert exporter.changed == [], "the first word is no change"
    exporter.says(after)
    exporter.says(after)
    assert exporter.changed == [("n1", told)]
    exporter.frame.versions.written(1)
    assert exporter.changed == []


def test_parts_and_exporters_that_always_differed_have_not_changed() -> None:
    exporter, other = Scraped(), Scraped("node:9101")
    other.frame = exporter.frame
    other.intake = Intake(exporter.frame, {"n1": "n1"}.get)
    other.target = exporter.frame.target("n1", "node:9101", 15.0)
    port = 'node_infiniband_info{{device="mlx5_{0}",firmware_version="{1}"}} 1'
    exporter.says(build("1.8.2"), port.format(0, "28.39"), port.format(1, "16.35"))
    other.says(build("1.9.0"))
    exporter.says(build("1.8.2"), port.format(1, "16.35"), port.format(0, "28.39"))
    assert exporter.changed == []


def test_all_gpus_of_a_node_make_one_change_of_its_driver() -> None:
    exporter = Scraped("dcgm")
    line = 'DCGM_FI_DEV_GPU_TEMP{{gpu="{0}",UUID="GPU-{0}",DCGM_FI_DRIVER_VERSION="{1}"}} 40'
    for version in ("550.90", "570.86"):
        exporter.says(*[line.format(index, version) for index in range(8)])
    assert exporter.changed == [("n1", "the GPU driver became 570.86")]


def test_an_exporter_that_speaks_for_another_node_tells_nothing_of_this_one() -> None:
    exporter = Scraped()
    for version in ("1.8.2", "1.9.0"):
        exporter.says(f'node_exporter_build_info{{version="{version}",Hostname="n2"}} 1')
    assert exporter.changed == []


def test_what_is_pushed_counts_as_what_is_scraped() -> None:
    pusher = Pusher()
    for version in ("1.8.2", "1.9.0"):
        labels = {"__name__": "node_exporter_build_info", "instance": "n1:9100", "job": "node", "version": version}
        pusher.push([(labels, [(1.0, pusher.ms)])])
        pusher.push([({**gpu("n1", 0, names.GPU_TEMP), "DCGM_FI_DRIVER_VERSION": version}, [(40.0, pusher.ms)])])
        pusher.tick()
    assert pusher.frame.versions.changed() == [
        ("n1", "the node exporter became 1.9.0"),
        ("n1", "the GPU driver became 1.9.0"),
    ]


def test_a_sender_of_one_node_tells_nothing_of_another() -> None:
    pusher = Pusher()
    for version in ("1.8.2", "1.9.0"):
        labels = {"__name__": "node_exporter_build_info", "instance": "n1:9100", "version": version}
        pusher.push([(labels, [(1.0, pusher.ms)])], only="n2")
        pusher.tick()
    assert pusher.frame.versions.changed() == []


def test_a_metrics_api_tells_the_drivers_version_as_well() -> None:
    store = Store()
    for version in ("550.90", "570.86"):
        store.round([(gleaned(0, DCGM_FI_DRIVER_VERSION=version), 40.0)])
        store.round([(gleaned(0, DCGM_FI_DRIVER_VERSION=version), 41.0)])
    assert store.frame.versions.changed() == [("n1", "the GPU driver became 570.86")]


def test_what_no_column_can_hold_is_no_version_and_memory_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = Versions()

    def say(version: str, device: str = "") -> None:
        labels = {"firmware_version": version, "device": device}
        versions.of_metric("n1", "node", "node_infiniband_info", labels)

    for version in ("28.39", "", "28\x00", "28\ud800", "28\n43"):
        say(version)
    assert versions.changed() == []
    say("9" * 500)
    assert len(versions.changed()[0][1]) < 200
    assert KEPT >= 100_000
    monkeypatch.setattr("fleet.telemetry.versions.KEPT", 1)
    say("28.39", "mlx5_9")
    say("28.43", "mlx5_9")
    assert len(versions.changed()) == 1
