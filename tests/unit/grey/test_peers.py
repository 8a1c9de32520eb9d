"""Who is unlike its peers, on synthetic gangs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fleet.health.grey.measures import GPU_MEASURES
from fleet.health.grey.peers import Distances, compare, medians
from fleet.health.grey.suspicion import Suspicion

NAMES = [measure.name for measure in GPU_MEASURES]
USUAL = {"SM clock": 1980, "power": 615, "temperature": 62, "memory temperature": 71, "SM activity": 0.8,
         "tensor activity": 0.46, "memory activity": 0.37, "memory copies": 48, "NVLink traffic": 3.4e11,
         "PCIe traffic": 5.5e9}  # fmt: skip
SAMPLES = 10


def a_gang(members: int = 64, seed: int = 1) -> np.ndarray:
    """Measures by GPUs by samples, with a few percent of noise."""
    random = np.random.default_rng(seed)
    usual = np.array([USUAL[name] for name in NAMES], dtype=np.float32)[:, None, None]
    return (usual * (1 + 0.02 * random.standard_normal((len(NAMES), members, SAMPLES)))).astype(np.float32)


def look(values: np.ndarray, groups: np.ndarray | None = None, active: np.ndarray | None = None) -> Distances:
    members = values.shape[1]
    return compare(
        values,
        np.ones((members, SAMPLES), dtype=bool) if active is None else active,
        np.zeros(members, dtype=np.int64) if groups is None else groups,
    )


def test_a_gpu_at_half_its_clock_is_far_and_nobody_else_is() -> None:
    values = a_gang()
    values[NAMES.index("SM clock"), 7] *= 0.5
    found = look(values)
    assert list(np.flatnonzero(found.bad.any(axis=0))) == [7]
    assert found.z[NAMES.index("SM clock"), 7] < -20


def test_a_higher_clock_and_a_lower_temperature_speak_against_nobody() -> None:
    values = a_gang()
    values[NAMES.index("SM clock"), 7] *= 1.5
    values[NAMES.index("temperature"), 8] *= 0.5
    assert not look(values).bad.any()


def test_whoever_is_waited_for_computes_more_than_those_who_wait() -> None:
    values = a_gang()
    values[NAMES.index("tensor activity"), 3] *= 1.9
    assert list(np.flatnonzero(look(values).bad.any(axis=0))) == [3]


def test_idle_gpus_small_gangs_and_gpus_without_a_gang_are_not_judged() -> None:
    values = a_gang()
    values[0, :3] *= 0.5
    idle = np.ones((64, SAMPLES), dtype=bool)
    idle[0] = False
    groups = np.zeros(64, dtype=np.int64)
    groups[1], groups[2] = -1, 5
    found = look(values, groups, idle)
    assert not found.bad[:, :3].any() and not found.judged[:, :3].any()


def test_a_stage_of_a_pipeline_is_no_fault() -> None:
    values = a_gang()
    values[NAMES.index("tensor activity"), :8] *= 0.5
    found = look(values)
    assert not found.bad.any()
    assert not found.judged[NAMES.index("tensor activity")].any()


def test_gaps_are_not_values() -> None:
    values = a_gang()
    values[:, 5, :4] = np.nan
    values[:, 6, :6] = np.nan
    found = look(values)
    assert found.judged[:, 5].all() and not found.judged[:, 6].any() and not found.bad.any()


def test_all_the_same_is_nobodys_fault() -> None:
    values = np.full((len(NAMES), 32, SAMPLES), 7.0, dtype=np.float32)
    assert not look(values).bad.any()


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.float32, (3, 11), elements=st.floats(-1e6, 1e6, width=32) | st.just(np.nan)))
def test_the_median_is_numpys(values: np.ndarray) -> None:
    ours = medians(values)
    for row, mine in zip(values, ours, strict=True):
        known = row[~np.isnan(row)]
        if len(known) * 2 < len(row):
            assert np.isnan(mine)
        else:
            assert mine == pytest.approx(float(np.median(known)), rel=1e-5, abs=1e-3)


def test_gangs_are_compared_with_themselves_only() -> None:
    fast, slow = a_gang(seed=2), a_gang(seed=3)
    slow *= 0.6
    values = np.concatenate([fast, slow], axis=1)
    groups = np.repeat(np.array([4, 9]), 64)
    assert not look(values, groups).bad.any()
    shuffled = np.random.default_rng(1).permutation(128)
    values[0, 100] *= 0.5
    found = look(values[:, shuffled], groups[shuffled])
    assert list(shuffled[np.flatnonzero(found.bad.any(axis=0))]) == [100]


def test_healthy_gangs_are_never_suspect_in_a_day_of_looks() -> None:
    suspicion = Suspicion(GPU_MEASURES)
    for seed in range(144):
        fresh, _ = suspicion.take(look(a_gang(seed=seed)))
        assert not len(fresh)


def bad_looks(suspicion: Suspicion, count: int, *names: str) -> list[int]:
    became: list[int] = []
    for seed in range(count):
        values = a_gang(seed=seed)
        for name in names:
            values[NAMES.index(name), 7] *= 0.5
        fresh, _ = suspicion.take(look(values))
        became += fresh.tolist()
    return became


def test_two_domains_in_four_looks_are_a_suspicion_and_less_is_not() -> None:
    assert bad_looks(Suspicion(GPU_MEASURES), 3, "SM clock", "power") == []
    assert bad_looks(Suspicion(GPU_MEASURES), 9, "SM clock") == []
    assert bad_looks(Suspicion(GPU_MEASURES), 9, "memory activity", "memory copies") == [], "both are one domain"
    suspicion = Suspicion(GPU_MEASURES)
    assert bad_looks(suspicion, 4, "SM clock", "power") == [7]
    assert bad_looks(suspicion, 4, "SM clock", "power") == [], "told once"


def test_a_suspicion_ends_after_five_good_looks_and_not_in_silence() -> None:
    suspicion = Suspicion(GPU_MEASURES)
    bad_looks(suspicion, 4, "SM clock", "power")
    asleep = look(a_gang(), active=np.zeros((64, SAMPLES), dtype=bool))
    for _ in range(20):
        assert not len(suspicion.take(asleep)[1])
    over = [suspicion.take(look(a_gang(seed=seed)))[1].tolist() for seed in range(5)]
    assert over == [[], [], [], [], [7]]


def small_gang(spread: int, members: int = 4) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A gang of a few GPUs beside one of 64 and one of `spread` of the same model: values, groups, models."""
    values = np.concatenate([a_gang(members, seed=9), a_gang(64, seed=8), a_gang(spread, seed=7)], axis=1)
    groups = np.repeat([0, 1, 2], [members, 64, spread]).astype(np.int64)
    return values, groups, np.zeros(values.shape[1], dtype=np.int64)


def compared(values: np.ndarray, groups: np.ndarray, models: np.ndarray | None) -> Distances:
    return compare(values, np.ones((values.shape[1], SAMPLES), dtype=bool), groups, models)


@pytest.mark.parametrize("members", [4, 5, 6, 7])
def test_a_few_gpus_are_measured_against_their_model_and_marked_as_such(members: int) -> None:
    values, groups, models = small_gang(64, members)
    values[NAMES.index("SM clock"), 1] *= 0.7
    found = compared(values, groups, models)
    assert list(np.flatnonzero(found.bad.any(axis=0))) == [1]
    assert list(np.flatnonzero(found.wide)) == list(range(members)) and not found.few.any()
    alone = compared(values, groups, None)
    assert not alone.bad.any() and list(np.flatnonzero(alone.few)) == list(range(members))


@pytest.mark.parametrize("members", [1, 2, 3])
def test_fewer_than_four_are_too_few_and_counted(members: int) -> None:
    values, groups, models = small_gang(64, members)
    values[NAMES.index("SM clock"), 0] *= 0.3
    found = compared(values, groups, models)
    assert not found.bad.any() and not found.judged[:, :members].any()
    assert list(np.flatnonzero(found.few)) == list(range(members))


def test_other_work_on_the_model_is_no_yardstick_for_activity() -> None:
    values, groups, models = small_gang(64)
    for name in ("tensor activity", "power", "memory activity"):
        values[NAMES.index(name), 68:] *= 0.5
        values[NAMES.index(name), :4] *= 0.75
    assert not compared(values, groups, models).bad.any()


def suspects(*looks: tuple[int, np.ndarray], **taken: object) -> list[int]:
    """Who becomes suspect in so many looks of each of these values."""
    suspicion, found = Suspicion(GPU_MEASURES), []
    for count, values in looks:
        for _ in range(count):
            found += suspicion.take(look(values), **taken)[0].tolist()  # type: ignore[arg-type]
    return found


def with_(**factors: float) -> np.ndarray:
    """A gang in which the seventh GPU is other by these factors; an underscore stands for a space."""
    values = a_gang()
    for name, factor in factors.items():
        values[NAMES.index(name.replace("_", " ")), 7] *= factor
    return values


def test_heavier_work_is_no_fault_however_many_measures_it_moves() -> None:
    heavy = with_(tensor_activity=1.3, SM_activity=1.3, memory_activity=1.3, power=1.2, temperature=1.15)
    assert suspects((9, heavy)) == []
    assert suspects((9, with_(tensor_activity=0.6, SM_activity=0.6, memory_activity=0.6, power=0.6))) == []


def test_a_power_cap_that_holds_heavy_work_down_is_no_fault() -> None:
    capped = with_(SM_clock=0.85, power=1.12, tensor_activity=1.3, memory_activity=1.3)
    assert suspects((9, capped)) == []
    assert suspects((9, with_(SM_clock=0.85, power=0.8, tensor_activity=1.3))) == [7]
    assert suspects((9, with_(SM_clock=0.5, power=1.12, tensor_activity=1.3))) == [7], "no cap goes that far"


def test_the_one_that_all_wait_for_is_found_when_its_gang_slows_down() -> None:
    well, waited_for = a_gang(), with_(SM_activity=1.3, power=1.2)
    since = np.full(64, 10, dtype=np.int64)
    assert suspects((12, well), (6, waited_for)) == []
    assert suspects((12, well), (6, waited_for), slow_since=since) == [7]
    assert suspects((6, waited_for), slow_since=since) == [], "it was like that before anybody watched"
    lighter = with_(SM_activity=0.7, power=0.7, tensor_activity=0.7)
    assert suspects((12, well), (6, lighter), slow_since=since) == []


def test_who_waits_for_something_else_than_peers_draws_less_for_the_same_work() -> None:
    since = np.full(64, 10, dtype=np.int64)
    assert suspects((12, a_gang()), (6, with_(power=0.7)), slow_since=since) == [7]
    assert suspects((12, a_gang()), (6, with_(power=0.7, tensor_activity=0.8)), slow_since=since) == []
