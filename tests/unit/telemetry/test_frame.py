"""The frame as a map: every series its own row, for ever the same, however many there are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fleet.telemetry import names
from fleet.telemetry.columns import BLOCK, Columns
from fleet.telemetry.frame import NEVER, Frame
from fleet.telemetry.series import HOST, Part

PARTS = st.sampled_from(
    [HOST, *(Part(f"{kind}{number}", kind) for kind in ("gpu", "port", "mount") for number in range(3))]
)
WATCHED = (names.GPU_TEMP, names.XID, names.IB_STATE, names.MOUNT_ERROR, names.NODE_TIME)
METRICS = st.sampled_from(WATCHED)
SERIES = st.tuples(st.sampled_from(["n1", "n2", "n3"]), PARTS, METRICS, st.sampled_from(["", "7", "8"]))


@settings(max_examples=200, deadline=None)
@given(st.lists(SERIES, max_size=40))
def test_each_series_has_one_row_and_each_row_is_found_by_what_it_is(told: list[tuple[str, Part, str, str]]) -> None:
    frame = Frame(capacity=2)
    rows: dict[tuple[str, str, str, str], int] = {}
    for node, part, metric, sub in told:
        target = frame.target(node, "exporter", 15.0)
        row = frame.row(target, names.METRICS[metric], frame.place(target, part), sub)
        assert rows.setdefault((node, part.key, metric, sub), row) == row
    assert sorted(rows.values()) == list(range(len(rows)))
    for (node, key, metric, sub), row in rows.items():
        assert frame.find(metric, node, key, sub) == row
        assert (frame.device_of(row).node, frame.device_of(row).key, frame.row_sub[row]) == (node, key, sub)
        assert frame.rows(metric)[frame.r.pos[row]] == row
        assert frame.r.pos[row] in frame.places(node, metric)
    for metric, other in ((a, b) for a in WATCHED for b in WATCHED):
        mine = frame.rows(metric)
        for row, found in zip(mine.tolist(), frame.beside(other, mine).tolist(), strict=True):
            device, sub = int(frame.r.device[row]), frame.row_sub[row]
            same, plain = frame.row_at(other, device, sub), frame.row_at(other, device)
            assert found == (same if same >= 0 else plain)
    for node, part, metric, sub in told:
        assert frame.find(metric, node, part.key, sub + "9") is None, "asking makes nothing"


def test_room_is_filled_before_it_is_used_and_spare_room_is_never_read() -> None:
    columns = Columns(3, value=(np.float64, np.nan), mono=(np.float64, NEVER), place=(np.int32, -1))
    for number in range(2 * BLOCK + 5):
        assert columns.add() == number
        assert np.isnan(columns.value[number]) and columns.mono[number] == NEVER and columns.place[number] == -1
        assert np.isnan(columns.value[-1]) and columns.place[-1] == -1, "where none leads"
        columns.place[number] = number
    assert columns.place[: columns.size].tolist() == list(range(columns.size))
