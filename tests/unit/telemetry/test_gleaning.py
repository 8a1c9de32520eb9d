"""Answers of a metrics API against the frame: whose, how old, and what silence means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from fleet.ports.metrics import Vector
from fleet.telemetry import names, promql
from fleet.telemetry.frame import Frame
from fleet.telemetry.gleaning import Gleaner
from fleet.telemetry.series import AMBIGUOUS, Ambiguous

WALL = 1_790_000_000.0
NODES: dict[str, str | Ambiguous] = {"n1": "n1", "n2": "n2", "10.0.0.1": "n1", "twin": AMBIGUOUS}


def gpu(index: int, host: str = "n1", **more: str) -> dict[str, str]:
    return {"Hostname": host, "UUID": f"GPU-{host}-{index}", **more}


def vector(series: list[tuple[Mapping[str, str], float]], partial: bool = False) -> Vector:
    values = np.array([value for _labels, value in series])
    return Vector([labels for labels, _value in series], values, np.full(len(series), WALL), partial=partial)


@dataclass
class Store:
    """A store sampled every 15 s and asked every 15 s, on a table."""

    frame: Frame = field(default_factory=Frame)
    mono: float = 1000.0
    wall: float = WALL
    partial: bool = False

    def __post_init__(self) -> None:
        self.gleaner = Gleaner(self.frame, NODES.get, 15.0)

    def round(
        self,
        gpus: list[tuple[Mapping[str, str], float]],
        *,
        age: float = 1.0,
        ages: Mapping[int, float] | None = None,
        after: float = 15.0,
    ) -> int:
        """`gpus` are (labels, temperature); `age` is that of their samples, `ages` of single ones by position."""
        self.mono, self.wall = self.mono + after, self.wall + after
        stamps = [(labels, self.wall - (ages or {}).get(n, age)) for n, (labels, _value) in enumerate(gpus)]
        self.gleaner.begin([(promql.heartbeat("dcgm"), vector(stamps, self.partial))], self.mono, self.wall)
        self.gleaner.take(promql.value(names.GPU_TEMP), vector(gpus, self.partial))
        return self.gleaner.finish(self.mono, self.wall)

    def fresh(self) -> list[bool]:
        return self.frame.fresh_rows(self.frame.rows(names.GPU_TEMP), self.mono).tolist()

    def missed(self, index: int) -> int:
        device = self.frame.device("n1", f"GPU-n1-{index}")
        assert device is not None
        return int(self.frame.t.seq[device.target] - self.frame.d.seq[device.index])

    @property
    def rejected(self) -> set[tuple[str, str]]:
        return set(self.gleaner.refused)


def test_a_sample_enters_under_the_node_that_exporter_and_scrape_agree_on() -> None:
    store = Store()
    assert store.round([(gpu(0, node="n1"), 61.0), (gpu(1), 62.0)]) == 2
    assert store.frame.value(names.GPU_TEMP, "n1", "GPU-n1-1") == 62.0
    found = store.frame.device("n1", "GPU-n1-0")
    assert found is not None and found.kind == "gpu"


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        (gpu(0, "n1", node="n2"), "wrong_node"),
        (gpu(0, "stranger"), "unknown_node"),
        (gpu(0, "twin"), "ambiguous_node"),
    ],
)
def test_a_sample_of_no_node_or_two_is_refused_and_counted(labels: dict[str, str], reason: str) -> None:
    store = Store()
    assert store.round([(labels, 61.0)]) == 0
    assert store.rejected == {(reason, labels["Hostname"])}


def test_an_instance_is_known_by_its_address_and_new_aliases_are_heard() -> None:
    store, node = Store(), promql.value(names.BOOT_TIME)
    beat = (promql.heartbeat("node"), vector([({"instance": "10.0.0.1:9100"}, WALL), ({"instance": "n9"}, WALL)]))
    store.gleaner.begin([beat], 1000.0, WALL)
    store.gleaner.take(node, vector([({"instance": "10.0.0.1:9100"}, 5.0)]))
    assert store.gleaner.finish(1000.0, WALL) == 1
    assert store.frame.value(names.BOOT_TIME, "n1") == 5.0
    assert store.rejected == {("unknown_node", "n9")}


def test_a_value_is_as_old_as_its_sample() -> None:
    store = Store()
    for _ in range(3):
        store.round([(gpu(0), 61.0)])
    rows = store.frame.rows(names.GPU_TEMP)
    assert store.mono - store.frame.r.mono[rows][0] == pytest.approx(1.0)
    assert store.frame.r.source[rows][0] == pytest.approx(store.wall - 1.0)


def test_a_store_that_shows_the_same_sample_again_brings_nothing_and_it_grows_stale() -> None:
    store = Store()
    for _ in range(3):
        store.round([(gpu(0), 61.0)])
    for repeat in range(1, 6):
        assert store.round([(gpu(0), 61.0)], age=1.0 + 15.0 * repeat) == 0
    assert store.fresh() == [False]
    assert store.frame.stale_targets(store.mono).tolist() == [True]


def test_old_samples_at_first_sight_are_not_fresh() -> None:
    store = Store()
    store.round([(gpu(0), 61.0)], age=290.0)
    assert store.fresh() == [False]


def test_a_store_that_shows_samples_half_a_minute_late_keeps_them_fresh() -> None:
    store = Store()
    for _ in range(8):
        assert store.round([(gpu(0), 61.0)], age=31.0) == 1
        assert store.fresh() == [True]
    for repeat in range(1, 7):
        store.round([(gpu(0), 61.0)], age=31.0 + 15.0 * repeat)
    assert store.fresh() == [False]


def test_samples_from_the_future_are_refused_and_small_leads_are_no_youth() -> None:
    store = Store()
    store.round([(gpu(0), 61.0)], age=-400.0)
    assert store.rejected == {("clock_skew", "n1")}
    store.round([(gpu(0), 61.0)], age=-20.0)
    assert store.frame.r.mono[store.frame.rows(names.GPU_TEMP)][0] == store.mono


def test_a_gpu_that_left_its_exporter_is_missing_whatever_the_store_still_shows() -> None:
    store, both = Store(), [(gpu(0), 61.0), (gpu(1), 62.0)]
    for _ in range(4):
        store.round(both)
    store.round([(gpu(0), 61.0)])
    assert (store.missed(0), store.missed(1)) == (0, 1)
    store.round(both, ages={1: 46.0})
    assert (store.missed(0), store.missed(1)) == (0, 2)


def test_a_partial_answer_proves_no_absence() -> None:
    store = Store()
    for _ in range(3):
        store.round([(gpu(0), 61.0), (gpu(1), 62.0)])
    store.partial = True
    store.round([(gpu(0), 63.0)])
    assert store.missed(1) == 0
    assert store.frame.value(names.GPU_TEMP, "n1", "GPU-n1-0") == 63.0


def test_after_a_gap_counters_start_anew() -> None:
    store = Store()
    for _ in range(4):
        store.round([(gpu(0), 61.0)])
    epoch = int(store.frame.t.epoch[0])
    store.round([(gpu(0), 61.0)], after=120.0)
    assert int(store.frame.t.epoch[0]) == epoch + 1


def test_a_series_whose_exporter_has_no_heartbeat_yet_waits_for_it() -> None:
    store = Store()
    store.gleaner.begin([], store.mono, store.wall)
    store.gleaner.take(promql.value(names.GPU_TEMP), vector([(gpu(0), 61.0)]))
    assert store.gleaner.finish(store.mono, store.wall) == 0
    assert store.round([(gpu(0), 61.0)]) == 1


def test_blanks_are_dropped_and_absurd_values_told() -> None:
    store = Store()
    assert store.round([(gpu(0), 2.0**63), (gpu(1), float("nan")), (gpu(2), 9000.0)]) == 0
    assert store.rejected == {("absurd_value", names.GPU_TEMP)}


def test_questions_are_aggregated_and_know_every_spelling() -> None:
    beats, values = promql.questions({names.GPU_TEMP, "kernel_log", names.PROCESS_START}, 'cluster="east"')
    assert [question.job for question in beats] == ["dcgm", "node"]
    asked = values[0].expression
    assert len(values) == 1 and asked.startswith("max by (Hostname, hostname, node, UUID")
    assert '__name__=~"DCGM_FI_DEV_GPU_TEMP|DCGM_FI_DEV_GPU_TEMP_CELSIUS",cluster="east"' in asked
    assert "pod" not in asked
    _, (clock,) = promql.questions({names.SM_CLOCK}, 'cluster="east"')
    assert clock.expression.endswith(
        '(DCGM_FI_DEV_SM_CLOCK{cluster="east"} or DCGM_FI_DEV_SM_CLOCK_HERTZ{cluster="east"} * 1e-06)'
    )
