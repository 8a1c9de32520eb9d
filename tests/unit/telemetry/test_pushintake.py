"""Pushed samples become the same series as scraped ones, and what may not enter is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import names, packing, remotewrite
from fleet.telemetry.claims import claims, instance_host
from fleet.telemetry.frame import NEVER, Frame
from fleet.telemetry.intake import Intake
from fleet.telemetry.pushintake import PushIntake
from fleet.telemetry.series import AMBIGUOUS, Ambiguous
from tests.unit.telemetry import writes
from tests.unit.telemetry.writes import Sample, gpu

WALL = 1_796_000_000.0
NODES: dict[str, str | Ambiguous] = {"n1": "n1", "n2": "n2", "10.0.0.1": "n1", "10.9.9.9": AMBIGUOUS}


class Pusher:
    """A Prometheus that writes to an intake, on a clock of its own."""

    def __init__(self, frame: Frame | None = None) -> None:
        self.frame = frame or Frame()
        self.intake = PushIntake(self.frame, NODES.get, 15.0)
        self.mono, self.wall = 1000.0, WALL

    def push(self, many: Sequence[tuple[Mapping[str, str], Sequence[Sample]]], only: str = "") -> Counter[str]:
        series = remotewrite.split(packing.snappy(writes.first(many)))
        cache = self.intake.cache(only, self.mono)
        read = remotewrite.read(series, cache, lambda labels: self.intake.place(labels, only, self.mono))
        taken, rejects = self.intake.take(read, self.mono, self.wall)
        return Counter({"taken": taken}) + rejects

    def tick(self, seconds: float = 15.0) -> None:
        self.mono, self.wall = self.mono + seconds, self.wall + seconds

    @property
    def ms(self) -> int:
        return int(self.wall * 1000)

    def temps(self, *gpus: int, value: float = 50.0, name: str = names.GPU_TEMP, node: str = "n1") -> Counter[str]:
        return self.push([(gpu(node, index, name), [(value, self.ms)]) for index in gpus])

    def missed(self, index: int) -> int:
        device = self.frame.device("n1", f"GPU-n1-{index}")
        assert device is not None
        return int(self.frame.t.seq[device.target] - self.frame.d.seq[device.index])


def test_a_pushed_series_is_the_one_that_a_scrape_makes() -> None:
    pusher = Pusher()
    pusher.temps(0, value=61.0)
    row = pusher.frame.find(names.GPU_TEMP, "n1", "GPU-n1-0")
    text = 'DCGM_FI_DEV_GPU_TEMP{gpu="0",UUID="GPU-n1-0",pci_bus_id="00000000:1B:00.0",Hostname="n1"} 62\n'
    target = pusher.frame.target("n1", "dcgm-exporter", 15.0, pusher.mono)
    pusher.tick()
    Intake(pusher.frame, NODES.get).scraped(target, text.encode(), pusher.mono, pusher.wall)
    assert pusher.frame.find(names.GPU_TEMP, "n1", "GPU-n1-0") == row
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") == 62.0
    assert len(pusher.frame.gpus()) == 1
    pusher.tick()
    assert pusher.temps(0, value=99.0) == {"also_scraped": 1}  # our own fresh scrape is better
    assert pusher.missed(0) == 0
    pusher.tick(60)
    assert pusher.temps(0, value=63.0)["taken"] == 1  # and a stale one is not
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") == 63.0


def test_a_pushed_value_in_another_unit_is_known_in_ours() -> None:
    pusher = Pusher()
    for turn, (name, value) in enumerate(
        [(names.GPU_UTIL, 40.0), ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.5), ("DCGM_FI_DEV_GPU_UTIL_RATIO", 0.75)]
    ):
        assert pusher.temps(0, value=value, name=name) == {"taken": 1}
        assert pusher.frame.value(names.GPU_UTIL, "n1", "GPU-n1-0") == (40.0, 50.0, 75.0)[turn]
        assert pusher.temps(0, value=61.0, node="n9")["unknown_node"] == 1
        pusher.tick()


def test_whose_a_series_is() -> None:
    pusher, now = Pusher(), int(WALL * 1000)
    load = {"__name__": "node_load1", "job": "node"}
    refused = pusher.push(
        [
            ({**load, "instance": "10.0.0.1:9100"}, [(1.0, now)]),
            ({**load, "instance": "10.9.9.9:9100"}, [(1.0, now)]),
            ({**load, "instance": "nobody:9100"}, [(1.0, now)]),
            ({**load, "node": "n1", "Hostname": "n2"}, [(1.0, now)]),
            (load, [(1.0, now)]),
            ({"__name__": "go_goroutines", "instance": "n1:1"}, [(1.0, now)]),
            ({"node": "n1"}, [(1.0, now)]),
        ]
    )
    assert refused == {
        "taken": 1, "ambiguous_node": 1, "unknown_node": 2, "wrong_node": 1, "unwanted": 1, "bad_label": 1
    }  # fmt: skip
    assert claims({"instance": "[fe80::1]:9100"}) == ["fe80::1"] and instance_host("fe80::1") == "fe80::1"


def test_a_host_that_is_called_as_its_pod_is_no_claim() -> None:
    """Where nobody tells dcgm-exporter its node, it calls its host as its container is called."""
    pusher, now = Pusher(), int(WALL * 1000)
    own = {**gpu("n1", 0), "Hostname": "nvidia-dcgm-exporter-57pvc", "pod": "nvidia-dcgm-exporter-57pvc"}
    assert pusher.push([({**own, "node": "n1"}, [(61.0, now)])]) == {"taken": 1}
    assert pusher.push([({**own, "node": "n1", "pod": "llm-7"}, [(61.0, now)])]) == {"unknown_node": 1}
    assert pusher.push([({**own, "instance": "10.0.0.1:9400"}, [(62.0, now + 1)])]) == {"taken": 1}
    assert pusher.push([({**own, "node": "n1", "nodename": "n2"}, [(61.0, now)])]) == {"wrong_node": 1}


def test_who_speaks_for_one_node_speaks_for_no_other() -> None:
    pusher = Pusher()
    both = [(gpu("n1"), [(50.0, pusher.ms)]), (gpu("n2"), [(50.0, pusher.ms)])]
    assert pusher.push(both, only="n2") == {"taken": 1, "wrong_node": 1}
    assert pusher.frame.device("n1", "GPU-n1-0") is None
    assert pusher.push(both)["taken"] == 1  # the refusal was not remembered for others


def test_a_backlog_is_history_and_the_future_is_refused() -> None:
    pusher = Pusher()
    old, future = pusher.ms - 301_000, pusher.ms + 301_000
    assert pusher.push([(gpu("n1"), [(50.0, old)])]) == {"history": 1}
    assert pusher.push([(gpu("n1"), [(50.0, future)])]) == {"clock_skew": 1}
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") is None
    pusher.push([(gpu("n1"), [(50.0, pusher.ms - 120_000)])])  # late, so it is stale at once
    row = pusher.frame.find(names.GPU_TEMP, "n1", "GPU-n1-0")
    assert row is not None and pusher.frame.r.mono[row] == pusher.mono - 120.0


def test_a_repeated_request_changes_nothing_and_the_newest_of_one_request_counts() -> None:
    pusher = Pusher()
    many = [(gpu("n1"), [(50.0, pusher.ms), (70.0, pusher.ms + 1000), (60.0, pusher.ms + 500)])]
    assert pusher.push(many)["taken"] == 1
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") == 70.0
    assert pusher.push(many) == {"out_of_order": 3}


def test_a_stale_marker_ends_a_series_and_a_sample_brings_it_back() -> None:
    pusher = Pusher()
    pusher.temps(0, 1)
    pusher.tick()
    assert pusher.temps(0, value=writes.STALE_NAN) == {"stale_marker": 1}
    row = pusher.frame.find(names.GPU_TEMP, "n1", "GPU-n1-0")
    assert row is not None and pusher.frame.r.mono[row] == NEVER
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") is None
    pusher.tick()
    assert pusher.temps(0)["taken"] == 1
    assert pusher.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") == 50.0


def test_a_gpu_that_is_in_no_part_of_a_scrape_is_missed_and_a_part_alone_misses_none() -> None:
    pusher = Pusher()
    for _ in range(3):
        pusher.temps(0, 1)
        pusher.temps(2, 3, name="DCGM_FI_DEV_SM_CLOCK")  # another shard of the same scrape
        assert [pusher.missed(index) for index in range(4)] == [0] * 4
        pusher.tick()
    for _ in range(3):
        pusher.temps(0, 1, 2)
        pusher.tick()
    assert [pusher.missed(index) for index in range(4)] == [0, 0, 0, 2]


def test_exporters_of_one_job_on_a_node_do_not_take_turns_in_missing_gpus() -> None:
    pusher = Pusher()
    for _ in range(4):
        pusher.temps(0)
        pusher.tick(5)
        load = {"__name__": "node_load1", "job": "dcgm-exporter", "instance": "10.0.0.1:9400"}
        pusher.push([(load, [(1.0, pusher.ms)])])
        pusher.tick(10)
    assert pusher.missed(0) == 0


def test_silence_is_stale_and_after_an_hour_no_longer_expected() -> None:
    pusher = Pusher()
    pusher.temps(0)
    pusher.tick(60)
    assert pusher.frame.stale_targets(pusher.mono).any()
    pusher.tick(4000)
    pusher.temps(0, node="n2")
    assert not pusher.frame.stale_targets(pusher.mono).any()
    assert pusher.temps(0)["taken"] == 1


def test_what_comes_late_in_the_first_scrapes_is_no_news() -> None:
    pusher = Pusher()
    for turn in range(6):
        pusher.temps(turn, name=names.XID, value=79.0)
        pusher.tick()
    born = [int(pusher.frame.r.born[row]) > 1 for row in pusher.frame.rows(names.XID)]
    assert born == [False] * 4 + [True] * 2


def test_values_that_are_none_do_not_enter() -> None:
    pusher = Pusher()
    assert pusher.temps(0, value=9.223372036854775794e18) == {"blank": 1}
    assert pusher.temps(1, value=float("nan")) == {"nan": 1}
    assert pusher.temps(2, value=5000.0) == {"absurd_value": 1}


TABLES = st.dictionaries(st.sampled_from(["a", "b", "c"]), st.sampled_from(["n1", "n2", AMBIGUOUS]), max_size=3)
HOSTS = st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc"), st.integers(0, 1)), max_size=4)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(TABLES, HOSTS, HOSTS), max_size=5), st.sampled_from(["", "n1"]))
def test_a_table_that_changes_is_believed_as_by_one_who_never_knew_another(
    turns: list[tuple[dict[str, str | Ambiguous], list[tuple[str, str, int]], list[tuple[str, str, int]]]], only: str
) -> None:
    """Which of the series enter, and why the others do not, is the same with what was remembered and without: even
    where some came after the new table and before word of it."""
    pusher = Pusher()
    for table, between, hosts in turns:
        fresh = Pusher()
        pusher.intake.resolve = fresh.intake.resolve = table.get
        pusher.push(labelled(between, pusher.ms), only)
        pusher.intake.aliases_changed()
        pusher.tick()
        fresh.mono, fresh.wall = pusher.mono, pusher.wall
        assert pusher.push(labelled(hosts, pusher.ms), only) == fresh.push(labelled(hosts, pusher.ms), only)


def labelled(hosts: list[tuple[str, str, int]], ms: int) -> list[tuple[Mapping[str, str], Sequence[Sample]]]:
    return [({**gpu("x", index), "Hostname": a, "node": b}, [(50.0, ms)]) for a, b, index in hosts]
