"""From one exporter's answer to the frame: whose it is, which numbers are measurements, what is said of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import names
from fleet.telemetry.frame import Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.series import AMBIGUOUS, Ambiguous
from fleet.telemetry.targets import MAX_CLAIMS
from tests.unit.telemetry.texts import dcgm

NOW = 1_800_000_000.0
TEMP = names.GPU_TEMP


def resolve(said: str) -> str | Ambiguous | None:
    known: dict[str, str | Ambiguous] = {
        "n1": "n1",
        "n1.cluster.local": "n1",
        "N1": "n1",
        "n2": "n2",
        "shared": AMBIGUOUS,
    }
    return known.get(said)


class Station:
    """A frame with an intake and the DCGM exporter of node n1."""

    def __init__(self) -> None:
        self.frame = Frame()
        self.intake = Intake(self.frame, resolve)
        self.target = self.frame.target("n1", "dcgm-exporter", 15.0)
        self.mono = 100.0

    def scrape(self, body: bytes, after: float = 15.0) -> int:
        self.mono += after
        return self.intake.scraped(self.target, body, self.mono, NOW + self.mono)

    def temp(self, gpu: int = 0) -> float | None:
        return self.frame.value(TEMP, "n1", f"GPU-n1-{gpu}")


@pytest.fixture
def station() -> Station:
    return Station()


def test_values_land_in_the_frame_under_the_gpus_uuid(station: Station) -> None:
    assert station.scrape(dcgm("n1", {TEMP: 61})) == 8
    assert station.temp(3) == 61.0
    device = station.frame.device("n1", "GPU-n1-3")
    assert device is not None
    assert (device.attrs["index"], device.attrs["pci"], device.attrs["model"]) == (
        "3",
        "0000:1e:00",
        "NVIDIA H100 80GB HBM3",
    )


def test_a_gpu_is_found_by_the_address_the_kernel_writes(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}))
    found = station.frame.gpu_at("n1", "PCI:0000:1E:00")
    assert found is not None
    assert found.key == "GPU-n1-3"


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_TEMP_CELSIUS"])
def test_old_and_new_names_are_one_series(station: Station, name: str) -> None:
    station.scrape(dcgm("n1", {TEMP: 50}))
    station.scrape(dcgm("n1", {name: 61}))
    assert station.temp() == 61.0
    assert len(station.frame.rows(TEMP)) == 8


@pytest.mark.parametrize(
    "labels",
    [
        'gpu="0",UUID="GPU-n1-0",Hostname="n1"',
        'gpu="0",uuid="GPU-n1-0",hostname="n1"',
        'gpu="0",gpu_uuid="GPU-n1-0",hostname="n1.cluster.local"',
    ],
)
def test_labels_of_every_exporter_generation_name_the_same_gpu(station: Station, labels: str) -> None:
    station.scrape(dcgm("n1", {TEMP: 50}))
    station.scrape(f"{TEMP}{{{labels}}} 61\n".encode())
    assert station.temp() == 61.0


def test_a_pod_that_moves_makes_no_new_series(station: Station) -> None:
    for pod in ("a-1", "b-2", ""):
        station.scrape(dcgm("n1", {TEMP: 61}, pod=pod, namespace="train"))
    assert station.frame.r.size == 8


def test_an_error_code_in_a_label_makes_no_new_series(station: Station) -> None:
    station.scrape(dcgm("n1", {names.XID: 0}, err_code="0", err_msg="No Error"))
    station.scrape(dcgm("n1", {names.XID: 79}, err_code="79", err_msg="GPU has fallen off the bus"))
    assert station.frame.r.size == 8


# -- identity ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "reason"), [("n2", "wrong_node"), ("stranger", "unknown_node"), ("shared", "ambiguous_node")]
)
def test_a_sample_of_another_host_never_enters(station: Station, host: str, reason: str) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}))
    assert station.scrape(dcgm(host, {TEMP: 99})) == 0
    assert station.temp() == 61.0
    assert station.frame.value(TEMP, "n2", "GPU-n2-0") is None
    assert station.target.rejects[reason] == 8
    assert repr(host) in station.target.last_error
    station.scrape(dcgm(host, {TEMP: 99}))
    assert station.target.rejects[reason] == 16, "counted each time, although the series is cached"


def test_an_exporter_that_calls_its_host_as_its_pod_speaks_for_its_own_node(station: Station) -> None:
    body = dcgm("n1", {TEMP: 61}).replace(b'Hostname="n1"', b'Hostname="dcgm-exporter-57pvc"')
    assert station.scrape(body) == 0 and station.target.rejects["unknown_node"] == 8
    station.target.runs_in("dcgm-exporter-57pvc")
    assert station.scrape(body) == 8 and station.temp(3) == 61.0
    station.intake.aliases_changed(resolve)
    assert station.scrape(body) == 8
    station.target.runs_in("dcgm-exporter-x2x9q")
    assert station.scrape(body) == 0


def test_a_changed_alias_table_is_believed_at_once(station: Station) -> None:
    station.scrape(dcgm("stranger", {TEMP: 70}))
    station.intake.aliases_changed(lambda said: "n1")
    assert station.scrape(dcgm("stranger", {TEMP: 70})) == 8


TABLES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["n1", "n2", AMBIGUOUS]), max_size=3)
HOSTS = st.lists(st.sampled_from(["n1", "a", "b", "c"]), max_size=3)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TABLES, HOSTS, HOSTS), max_size=5))
def test_a_table_that_changes_is_believed_as_by_one_who_never_knew_another(
    turns: list[tuple[dict[str, str | Ambiguous], list[str], list[str]]],
) -> None:
    """Even where a scrape came after the new table and before word of it."""
    station = Station()
    for table, between, hosts in turns:
        station.intake.resolve = table.get
        station.scrape(b"".join(dcgm(host, {TEMP: 60}) for host in between))
        station.intake.aliases_changed()
        body = b"".join(dcgm(host, {TEMP: 60}) for host in hosts)
        fresh = Station()
        fresh.intake.aliases_changed(table.get)
        assert station.scrape(body) == fresh.scrape(body)


def test_a_table_that_changes_elsewhere_costs_nothing(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    station.scrape(dcgm("n1.cluster.local", {TEMP: 61}))
    monkeypatch.setattr(station.frame, "row", None)  # every series is known
    station.intake.aliases_changed(lambda said: "n9" if said == "new" else resolve(said))
    assert station.scrape(dcgm("n1.cluster.local", {TEMP: 62})) == 8


def test_a_change_of_names_counts_for_one_who_speaks_for_too_many() -> None:
    station = Station()
    body = b"".join(dcgm(f"h{number}", {TEMP: 60}) for number in range(2 * MAX_CLAIMS))
    assert station.scrape(body) == 0
    station.intake.aliases_changed({f"h{2 * MAX_CLAIMS - 1}": "n1"}.get)
    assert station.scrape(body) == 8


def test_some_foreign_samples_do_not_spoil_the_nodes_own(station: Station) -> None:
    assert station.scrape(dcgm("n1", {TEMP: 61}) + dcgm("n2", {TEMP: 62})) == 8
    assert station.target.failures == 0


# -- numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("9223372036854775794", "blank"),
        ("140737488355328", "blank"),
        ("2147483632", "blank"),
        ("NaN", "nan"),
        ("+Inf", "infinite"),
        ("-300", "absurd_value"),
        ("5000", "absurd_value"),
    ],
)
def test_what_is_no_measurement_keeps_the_last_value(station: Station, value: str, reason: str) -> None:
    body = dcgm("n1", {TEMP: 61})
    station.scrape(body)
    assert station.scrape(body.replace(b" 61.0\n", b" 61\n").replace(b" 61\n", f" {value}\n".encode(), 1)) == 7
    assert station.temp(0) == 61.0
    assert (station.target.counts + station.target.rejects)[reason] == 1


def test_a_big_byte_counter_is_no_blank(station: Station) -> None:
    name = "node_infiniband_port_data_received_bytes_total"
    node = station.frame.target("n1", "node-exporter", 15.0)
    for value in (2147483633, 140737488355327, 140737488355332, 3e14):
        station.intake.scraped(node, f'{name}{{device="mlx5_0",port="1"}} {value}\n'.encode(), 1.0, NOW)
        assert station.frame.value(name, "n1", "mlx5_0/1") == float(value)


def test_of_duplicates_the_last_is_kept_and_the_others_are_counted(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}) + dcgm("n1", {TEMP: 62}))
    assert station.temp() == 62.0
    assert station.target.rejects["duplicate"] == 8


def test_an_answer_without_a_sample_we_read_is_a_failure_with_a_sentence(station: Station) -> None:
    for body in (b"", b"<html>no</html>\n", b"# TYPE other gauge\nother 1\n"):
        station.scrape(body)
        assert station.target.failures
        assert station.target.last_error.startswith("dcgm-exporter on n1 answered with no")


def test_a_text_cut_in_the_middle_is_stated(station: Station) -> None:
    assert station.scrape(dcgm("n1", {TEMP: 61})[:-4]) == 7
    assert station.target.rejects["cut_line"] == 1
    assert station.target.last_reject == "dcgm-exporter of n1 sent a text that ends in the middle of a line."


def test_an_absurd_value_is_stated(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}) + b'DCGM_FI_DEV_POWER_USAGE{UUID="GPU-n1-0"} 9e9\n')
    assert station.target.last_reject == "dcgm-exporter of n1 sent values that the metric cannot have."


def test_one_exporter_cannot_fill_the_memory(station: Station, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fleet.telemetry.frame.MAX_ROWS_PER_TARGET", 20)
    for turn in range(10):
        station.scrape(b"".join(dcgm("n1", {TEMP: 61}).replace(b"GPU-n1", f"GPU-{turn}".encode()) for _ in range(1)))
    assert station.frame.r.size == 20
    assert station.target.rejects["too_many_series"] > 0


# -- time -------------------------------------------------------------------------------------------------------------


def test_a_sample_with_its_own_time_keeps_it(station: Station) -> None:
    at = NOW + 115.0 - 3
    station.scrape(f'{TEMP}{{UUID="GPU-n1-0"}} 61 {int(at * 1000)}\n'.encode())
    row = station.frame.find(TEMP, "n1", "GPU-n1-0")
    assert station.frame.r.source[row] == pytest.approx(at)
    assert station.frame.r.mono[row] == station.mono


@pytest.mark.parametrize("off", [-3600, 3600])
def test_a_sample_far_from_our_time_is_rejected_and_the_skew_noted(station: Station, off: int) -> None:
    station.scrape(f'{TEMP}{{UUID="GPU-n1-0"}} 61 {int((NOW + 115 + off) * 1000)}\n'.encode())
    assert station.temp() is None
    assert station.target.rejects["clock_skew"] == 1
    assert station.frame.t.skew[station.target.index] == pytest.approx(off)


def test_a_target_is_stale_after_three_intervals(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}))
    assert not station.frame.stale_targets(station.mono + 45)[0]
    assert station.frame.stale_targets(station.mono + 45.1)[0]


def test_a_failed_scrape_keeps_values_and_says_why(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}))
    station.intake.failed(station.target, "dcgm-exporter on n1 did not answer in time.")
    assert station.temp() == 61.0
    assert (station.target.failures, station.target.last_error) == (1, "dcgm-exporter on n1 did not answer in time.")
    station.scrape(dcgm("n1", {TEMP: 61}))
    assert (station.target.failures, station.target.last_error) == (0, "")


def test_a_target_that_is_gone_is_neither_stale_nor_known(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61}))
    station.frame.drop_target("n1", "dcgm-exporter")
    assert station.temp() is None
    assert not station.frame.stale_targets(station.mono + 1000).any()
    station.frame.target("n1", "dcgm-exporter", 15.0)
    station.scrape(dcgm("n1", {TEMP: 62}))
    assert station.temp() == 62.0


def test_the_page_of_a_node_gets_every_latest_value(station: Station) -> None:
    station.scrape(dcgm("n1", {TEMP: 61, "DCGM_FI_DEV_POWER_USAGE": 600}))
    latest = list(station.frame.latest("n1", station.mono + 4))
    assert len(latest) == 16
    assert {entry.age for entry in latest} == {4.0}


def test_the_frame_grows_without_losing_anything() -> None:
    frame = Frame(capacity=4)
    intake = Intake(frame)
    for node in range(40):
        body = dcgm(f"n{node}", {TEMP: 40 + node})
        intake.scraped(frame.target(f"n{node}", "dcgm-exporter", 15.0), body, 1.0, NOW)
    assert frame.r.value[frame.rows(TEMP)].tolist() == [40.0 + node for node in range(40) for _ in range(8)]
