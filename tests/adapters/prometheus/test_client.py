"""A query API that behaves, and all the ways in which one does not."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fleet.adapters import prometheus
from fleet.adapters.prometheus import Connection
from fleet.adapters.prometheus.decode import vector
from fleet.ports.errors import MissingRight, PermanentError, PortError, TemporaryError
from fleet.ports.metrics import MetricsReader
from tests.adapters.prometheus.fake_api import ONE, FakeApi, failure, running, success
from tests.patience import PATIENCE

T0 = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with running(FakeApi()) as fake:
        yield fake


def reader(api: FakeApi, **changes: object) -> MetricsReader:
    return prometheus.reader(Connection(**{"url": api.url, "timeout": PATIENCE, **changes}))  # type: ignore[arg-type]


def failed(api: FakeApi, **changes: object) -> PortError:
    with pytest.raises(PortError) as caught:
        reader(api, **changes).instant("up")
    return caught.value


def test_an_instant_query_is_posted_and_read_into_columns(api: FakeApi) -> None:
    answer = reader(api, url=api.url + "/prom/").instant("max by (Hostname) (x)")
    path, fields, headers = api.asked[0]
    assert (path, fields["query"]) == ("/prom/api/v1/query", "max by (Hostname) (x)")
    assert "Authorization" not in headers
    assert (list(answer.labels), answer.values.tolist(), answer.stamps.tolist()) == (
        [{"Hostname": "gpu-1"}],
        [42.0],
        [1700000000.5],
    )


def test_a_range_query_gives_curves(api: FakeApi) -> None:
    api.body = success("matrix", [{"metric": {"gpu": "0"}, "values": [[1.0, "1"], [61.0, "NaN"]]}])
    found = reader(api).over("x", T0, T0 + timedelta(hours=1), 60)
    assert api.asked[0][0] == "/api/v1/query_range"
    assert (api.asked[0][1]["step"], api.asked[0][1]["end"]) == ("60", "1767229200.000")
    assert found.curves[0].labels == {"gpu": "0"}
    np.testing.assert_array_equal(found.curves[0].values, [1.0, np.nan])


def test_credential_and_tenant_go_with_each_request_and_a_rotated_one_at_once(api: FakeApi) -> None:
    words = iter(["Bearer one", "Bearer two"])
    asking = reader(api, authorization=lambda: next(words), headers={"X-Scope-OrgID": "east"})
    asking.instant("up")
    asking.instant("up")
    assert [headers["Authorization"] for _path, _fields, headers in api.asked] == ["Bearer one", "Bearer two"]
    assert api.asked[0][2]["X-Scope-OrgID"] == "east"


@pytest.mark.parametrize(
    ("status", "body", "kind", "code"),
    [
        (401, b"no", PermanentError, "metrics_credential"),
        (403, b"no", MissingRight, "missing_right"),
        (404, b"404 page not found", PermanentError, "no_query_api"),
        (302, b"", PermanentError, "no_query_api"),
        (400, failure("bad_data", "unknown function"), PermanentError, "bad_query"),
        (422, failure("execution", "too many samples"), PermanentError, "bad_query"),
        (422, b"no json", PermanentError, "bad_query"),
        (503, failure("timeout", "query timed out"), TemporaryError, "query_timeout"),
        (503, b"<html>", TemporaryError, "metrics_unavailable"),
        (429, b"slow down", TemporaryError, "metrics_unavailable"),
        (200, b"<html>Log in", TemporaryError, "bad_answer"),
        (200, b"", TemporaryError, "bad_answer"),
        (200, ONE[:-7], TemporaryError, "bad_answer"),
        (200, failure("bad_data", "odd"), PermanentError, "bad_query"),
        (200, success("matrix", []), TemporaryError, "bad_answer"),
        (200, success("vector", [{"metric": {}, "value": [1, "one"]}]), TemporaryError, "bad_answer"),
        (200, success("vector", [{"metric": [], "value": [1, "1"]}]), TemporaryError, "bad_answer"),
        (200, b'{"status":"success","data":[]}', TemporaryError, "bad_answer"),
    ],
)
def test_each_failure_has_its_name(api: FakeApi, status: int, body: bytes, kind: type[PortError], code: str) -> None:
    api.status, api.body = status, body
    error = failed(api)
    assert (type(error), error.code) == (kind, code)
    assert str(error).endswith(".") or ": " in str(error)


def test_a_server_that_asks_to_wait_is_heard(api: FakeApi) -> None:
    api.status, api.headers = 503, {"Retry-After": "7"}
    error = failed(api)
    assert isinstance(error, TemporaryError) and error.retry_after == 7


def test_an_answer_cut_off_is_no_short_answer(api: FakeApi) -> None:
    api.promised = len(ONE) + 100
    assert failed(api).code == "cut_answer"


@pytest.mark.parametrize("behaviour", [{"late": 1.0}, {"slowly": 0.02}])
def test_the_time_out_covers_waiting_and_reading(api: FakeApi, behaviour: dict[str, float]) -> None:
    for name, value in behaviour.items():
        setattr(api, name, value)
    assert failed(api, timeout=0.3).code == "query_timeout"


def test_nobody_there_and_no_address_are_said() -> None:
    with pytest.raises(TemporaryError, match="cannot be reached"):
        prometheus.reader(Connection("http://127.0.0.1:9")).instant("up")
    with pytest.raises(PortError):
        prometheus.reader(Connection("http://")).instant("up")


def test_answers_without_end_are_refused_and_zipped_ones_read(api: FakeApi) -> None:
    api.zipped = True
    assert reader(api).instant("up").values.tolist() == [42.0]
    assert failed(api, max_bytes=10).code == "too_large"


def test_what_the_store_calls_incomplete_is_partial(api: FakeApi) -> None:
    api.body = success("vector", [], warnings=["store 10.0.0.7 is away"])
    assert reader(api).instant("x").partial
    api.body = success("vector", [], warnings=["PromQL info: metric might not be a counter"])
    assert not reader(api).instant("x").partial
    api.body = success("vector", [], isPartial=True)
    assert reader(api).instant("x").partial


def test_queries_side_by_side_are_bounded_and_in_order(api: FakeApi) -> None:
    api.late, api.meets = 0.02, threading.Barrier(3)
    answers = reader(api, at_once=3).instants([f"q{n}" for n in range(9)])
    assert len(answers) == 9 and api.most == 3
    with pytest.raises(PermanentError):
        api.status, api.meets = 404, None
        reader(api).instants(["a", "b"])


def test_a_large_answer_is_read_with_the_collector_held_off_and_on_again_after() -> None:
    body = success("vector", [{"metric": {"UUID": f"GPU-{n}"}, "value": [1, "2"]} for n in range(8000)])
    assert len(vector(body).labels) == 8000 and gc.isenabled()
    with pytest.raises(TemporaryError):
        vector(body[:-3])
    assert gc.isenabled()


def test_histograms_are_skipped_and_counted_and_a_scalar_is_a_vector() -> None:
    found = vector(success("vector", [{"metric": {}, "histogram": [1, {}]}, {"metric": {}, "value": [1, "+Inf"]}]))
    assert (found.skipped, found.values.tolist()) == (1, [float("inf")])
    assert vector(success("scalar", [1.0, "3"])).values.tolist() == [3.0]
