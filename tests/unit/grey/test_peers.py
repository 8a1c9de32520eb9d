"""Who is unlike its peers, on synthetic gangs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fleet.health.grey.measures import MEASURES
from fleet.health.grey.peers import Distances, compare, medians
from fleet.health.grey.suspicion import Suspicion

NAMES = [measure.name for measure in MEASURES]
USUAL = {"SM clock": 1980, "power": 615, "temperature": 62, "memory temperature": 71, "tensor activity": 0.46,
         "memory activity": 0.37, "memory copies": 48}  # fmt: skip
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
    suspicion = Suspicion()
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
    assert bad_looks(Suspicion(), 3, "SM clock", "power") == []
    assert bad_looks(Suspicion(), 9, "SM clock") == []
    assert bad_looks(Suspicion(), 9, "memory activity", "memory copies") == [], "both are one domain"
    suspicion = Suspicion()
    assert bad_looks(suspicion, 4, "SM clock", "power") == [7]
    assert bad_looks(suspicion, 4, "SM clock", "power") == [], "told once"


def test_a_suspicion_ends_after_five_good_looks_and_not_in_silence() -> None:
    suspicion = Suspicion()
    bad_looks(suspicion, 4, "SM clock", "power")
    asleep = look(a_gang(), active=np.zeros((64, SAMPLES), dtype=bool))
    for _ in range(20):
        assert not len(suspicion.take(asleep)[1])
    over = [suspicion.take(look(a_gang(seed=seed)))[1].tolist() for seed in range(5)]
    assert over == [[], [], [], [], [7]]
