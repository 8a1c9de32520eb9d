"""An hour of a node in a kilobyte: what comes out is what went in, within a step of the packing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry.rolling import BUCKETS, UNITS, roll, unroll

HOUR = datetime(2026, 5, 1, 12, tzinfo=UTC)


def minute(number: int, **values: object) -> bytes:
    """Six samples of one minute, all alike."""
    start = (HOUR + timedelta(minutes=number)).timestamp()
    return orjson.dumps({"at": [start + 10 * n for n in range(6)], **{name: [v] * 6 for name, v in values.items()}})


def test_an_hour_becomes_six_means_with_their_lows_and_highs() -> None:
    raw = [minute(n, gpu_temp=[60.0 + n % 10, None], ib_rx=4e10) for n in range(60)]
    buckets = unroll(HOUR, roll(HOUR, raw))
    assert [bucket.at for bucket in buckets] == [HOUR + timedelta(minutes=10 * n) for n in range(BUCKETS)]
    first = buckets[0].values
    assert [round(float(first[stat]["gpu_temp"][0]), 1) for stat in ("mean", "low", "high")] == [64.5, 60.0, 69.0]
    assert round(float(first["mean"]["ib_rx"][0]) / 1e9, 2) == 40.0
    assert len(first["mean"]["gpu_temp"]) == 1 and len(first["mean"]["gpu_util"]) == 0


def test_a_gap_stays_a_gap_and_nothing_is_an_empty_packing() -> None:
    raw = [minute(n, gpu_power=[400.0]) for n in range(10)] + [minute(n, gpu_power=[None]) for n in range(10, 20)]
    means = [bucket.values["mean"]["gpu_power"][0] for bucket in unroll(HOUR, roll(HOUR, raw))]
    assert means[0] == 400.0 and np.isnan(means[1:]).all()
    assert roll(HOUR, []) == b"" and roll(HOUR, [minute(1, gpu_power=[None])]) == b""


def test_an_hour_of_eight_gpus_takes_about_a_kilobyte() -> None:
    draw = np.random.default_rng(1)
    raw = [
        minute(
            n,
            gpu_temp=draw.normal(62, 3, 8).round(1).tolist(),
            gpu_power=draw.normal(600, 30, 8).round(2).tolist(),
            gpu_util=draw.normal(96, 2, 8).round().tolist(),
            gpu_clock=[1980.0] * 8,
            ib_rx=4e10,
            ib_tx=4e10,
        )
        for n in range(60)
    ]
    assert len(roll(HOUR, raw)) < 1100


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["gpu_temp", "gpu_power", "gpu_util", "gpu_clock"]),
        st.lists(st.none() | st.floats(0, 5000), min_size=1, max_size=16),
    )
)
def test_every_value_survives_within_half_a_step(values: dict[str, list[float | None]]) -> None:
    packed = roll(HOUR, [minute(0, **values)])
    known = {name: row for name, row in values.items() if any(v is not None for v in row)}
    assert bool(packed) == bool(known)
    if packed:
        first = unroll(HOUR, packed, tuple(known))[0].values["mean"]
        for name, row in known.items():
            for slot, value in enumerate(row):
                if value is not None:
                    assert abs(float(first[name][slot]) - value) <= UNITS[name][0] / 2 + 1e-9
                elif slot < len(first[name]):
                    assert np.isnan(first[name][slot])
