"""A node's past from a metrics API, and which keeper answers when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fleet.ports.errors import TemporaryError
from fleet.ports.history import Keeper, Past, Whose
from fleet.ports.metrics import Curve, Curves, Vector
from fleet.telemetry.pasts import Pasts
from fleet.telemetry.promhistory import PromqlHistory

NOW = datetime(2026, 5, 1, 12, tzinfo=UTC)
WHOSE = Whose(7, "gpu-1", ("gpu-1", "10.0.0.1"))


class Store:
    def __init__(self, curves: Sequence[Curve] = ()) -> None:
        self.curves, self.asked = curves, list[str]()

    def overs(self, expressions: Sequence[str], since: datetime, until: datetime, step: float) -> list[Curves]:
        self.asked += expressions
        return [Curves(self.curves) for _ in expressions]

    def over(self, expression: str, since: datetime, until: datetime, step: float) -> Curves:
        raise NotImplementedError

    def instant(self, expression: str, at: datetime | None = None) -> Vector:
        raise NotImplementedError

    def instants(self, expressions: Sequence[str]) -> list[Vector]:
        raise NotImplementedError


def test_gpus_lie_at_their_index_and_a_long_range_has_lows_and_highs() -> None:
    curves = [Curve({"gpu": str(n)}, np.array([1.0, 2.0]), np.array([60.0 + n, np.nan])) for n in (0, 2)]
    store = Store([*curves, Curve({"gpu": "none"}, np.array([1.0]), np.array([1.0]))])
    past = PromqlHistory(store).past(WHOSE, NOW - timedelta(days=7), NOW, ("gpu_temp",))
    assert past.rows[0][1] == {"gpu_temp": [60.0, None, 62.0]}
    assert past.rows[1][1] == {"gpu_temp": [None, None, None]}
    assert (past.kept, len(past.low), len(past.high)) == ("promql", 2, 2)
    assert [text.partition(" ")[0] for text in store.asked] == ["avg", "min", "max"]
    assert past.step == pytest.approx(2016.0)


def test_a_node_is_asked_for_by_all_its_names_and_names_stay_text() -> None:
    store = Store()
    odd = Whose(1, 'gpu"1', ('a.b|c"} or up{x="',))
    PromqlHistory(store, 'cluster="east"').past(odd, NOW - timedelta(hours=3), NOW, ("ib_rx",))
    asked = store.asked[0]
    assert asked.startswith("sum(rate(node_infiniband_port_data_received_bytes_total{node=~")
    assert 'a\\\\.b\\\\|c\\"' in asked and 'cluster="east"' in asked and "instance=~" in asked
    assert 'gpu\\"1' in asked


class Kept:
    def __init__(self, kept: Keeper, rows: int = 1, fails: bool = False) -> None:
        self.kept, self.rows, self.fails = kept, rows, fails

    def past(self, whose: Whose, since: datetime, until: datetime, measures: Sequence[str] = ()) -> Past:
        if self.fails:
            raise TemporaryError("The metrics API cannot be reached.")
        return Past([(NOW, {})] * self.rows, 10, self.kept)


@pytest.mark.parametrize(
    ("hours", "own", "remote", "answers"),
    [
        (1, Kept("embedded"), None, "embedded"),
        (1, Kept("embedded"), Kept("promql"), "embedded"),
        (1, Kept("embedded", rows=0), Kept("promql"), "promql"),
        (24, Kept("embedded"), Kept("promql"), "promql"),
        (24, Kept("embedded"), None, "embedded"),
        (24, Kept("embedded"), Kept("promql", rows=0), "embedded"),
        (24, Kept("embedded"), Kept("promql", fails=True), "embedded"),
    ],
)
def test_one_keeper_stands_in_for_the_other(hours: int, own: Kept, remote: Kept | None, answers: str) -> None:
    past = Pasts(own, remote).past(WHOSE, NOW - timedelta(hours=hours), NOW)
    assert past.kept == answers
    assert bool(past.notes) == bool(remote and remote.fails)
