"""Harnesses of packed and binary forms: remote write 1.0 and 2.0, Loki's protobuf, snappy and gzip."""

from __future__ import annotations

from collections import Counter

import numpy as np

from fleet.telemetry import loki, packing, remotewrite, remotewrite2
from fleet.telemetry.frame import Frame
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.pushintake import EVERYDAY, PushIntake
from fleet.telemetry.remotewrite import PushCache, PushedSamples
from fleet.telemetry.series import REJECTS
from tests.fuzz.texts import WALL, _lines

LIMIT = 1 << 20


class Rows:
    """Gives each label set a row, as a frame would."""

    def __init__(self) -> None:
        self.of: dict[tuple[tuple[str, str], ...], int] = {}

    def new(self, labels: dict[str, str]) -> int:
        return self.of.setdefault(tuple(sorted(labels.items())), len(self.of))


def _same(one: PushedSamples, other: PushedSamples, *counts: str) -> None:
    assert one.rows.tolist() == other.rows.tolist()
    assert one.values.tobytes() == other.values.tobytes() or np.array_equal(one.values, other.values, equal_nan=True)
    assert one.stamps.tolist() == other.stamps.tolist()
    assert {key: one.counts[key] for key in counts} == {key: other.counts[key] for key in counts}


def _into_frame(pushed: PushedSamples, intake: PushIntake) -> None:
    taken, rejects = intake.take(pushed, 1000.0, WALL)
    known = {*REJECTS.values(), *EVERYDAY, "malformed", "clock_skew", "infinite", "absurd_value"}
    assert set(rejects) <= known, set(rejects) - known
    assert taken + sum((rejects - Counter(malformed=rejects["malformed"])).values()) >= taken
    assert taken <= len(pushed.rows)


def _intake() -> PushIntake:
    return PushIntake(Frame(64), {"n1": "n1", "n2": "n2", "10.0.0.1": "n1"}.get, 15.0)


def remote_write_1(data: bytes) -> None:
    """Fast and slow readings agree, cold and warm, and what was read goes into a frame."""
    try:
        series = remotewrite.split(data)
    except BadMessage:
        return
    rows, cache = Rows(), PushCache()
    slow = remotewrite.read_slow(series, rows.new)
    for _ in range(2):
        _same(remotewrite.read(series, cache, rows.new), slow, "malformed", "samples", "histograms", "exemplars")
    intake = _intake()
    for _ in range(2):
        known = intake.cache("", 1000.0)
        _into_frame(remotewrite.read(series, known, lambda labels: intake.place(labels, "", 1000.0)), intake)


def remote_write_2(data: bytes) -> None:
    try:
        request = remotewrite2.Request(data)
    except BadMessage:
        return
    rows, cache = Rows(), PushCache()
    first = request.read(0, len(request), cache, rows.new)
    _same(request.read(0, len(request), cache, rows.new), first, "malformed", "samples")
    intake = _intake()
    known = intake.cache("", 1000.0)
    place = intake.place
    _into_frame(request.read(0, len(request), known, lambda labels: place(labels, "", 1000.0)), intake)
    try:
        slow = remotewrite2.read_slow(data, rows.new)
    except BadMessage:  # groups and the like, which the library passes over
        return
    _same(first, slow, "malformed", "samples")


def loki_protobuf(data: bytes) -> None:
    try:
        _lines(loki.read_protobuf(data))
    except BadMessage:
        return


def snappy(data: bytes) -> None:
    try:
        assert len(packing.snappy(data, LIMIT)) <= LIMIT
    except (packing.TooLarge, packing.NotPacked) as error:
        assert str(error)


def gzip(data: bytes) -> None:
    try:
        assert len(packing.gzip(data, LIMIT)) <= LIMIT
    except (packing.TooLarge, packing.NotPacked) as error:
        assert str(error)
