"""A server that is cut off costs one caller a wait now and then, and a stream that died in silence is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from fleet.adapters.kubernetes import client, silence
from fleet.adapters.kubernetes.acting import KubernetesActor
from fleet.adapters.kubernetes.client import ApiServer
from fleet.adapters.kubernetes.reading import KubernetesReader
from fleet.adapters.kubernetes.watch import Tuning
from fleet.lifecycle.fence import LEASE
from fleet.ports.cluster import HoldRequest
from fleet.ports.errors import TemporaryError, UnknownOutcome
from tests.adapters.kubernetes.conftest import FAST
from tests.adapters.kubernetes.scripted import Script, answer, hang, page, status, stream
from tests.adapters.kubernetes.test_watch import NODES, Watcher, event
from tests.patience import PATIENCE, left_in_time

VERSION = "GET /version"
READ, WRITE = client.READ_SECONDS, client.WRITE_SECONDS
LEAVES = answer(200, {"gitVersion": "v1.34.1"})


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch, script: Script) -> Iterator[None]:
    """A caller is let through when a test says so; see `let_through`."""
    monkeypatch.setattr(silence, "ASK_EVERY", PATIENCE)
    yield
    script.released.set()


@contextmanager
def impatient() -> Iterator[None]:
    """For calls that are never answered. Those that are may take as long as a busy machine needs."""
    with pytest.MonkeyPatch.context() as short:
        short.setattr(client, "READ_SECONDS", 0.1)
        short.setattr(client, "WRITE_SECONDS", 0.1)
        yield


def let_through(api: ApiServer) -> None:
    """The time in which nobody is let through has passed."""
    api._silence._next = 0.0


def refused(reader: KubernetesReader) -> TemporaryError:
    with pytest.raises(TemporaryError) as caught:
        reader.server_version()
    return caught.value


def test_one_call_ends_before_the_lease_of_the_worker_that_makes_it() -> None:
    assert max(READ, WRITE) < LEASE.total_seconds()


def test_after_one_call_without_an_answer_the_next_is_refused_at_once_and_unsent(
    script: Script, reader: KubernetesReader
) -> None:
    script.on(VERSION, hang, LEAVES)
    with impatient():
        assert "gave no complete answer" in str(refused(reader))
    error = refused(reader)
    assert len(script.sent("GET", "/version")) == 1
    assert error.code == "api_unreachable" and error.retry_after == silence.SOONEST
    assert "has not answered since" in str(error) and "asked again every few seconds" in str(error)


def test_a_silent_server_is_asked_again_by_one_caller_and_its_answer_lets_all_in(
    script: Script, api: ApiServer, reader: KubernetesReader
) -> None:
    script.on(VERSION, hang, hang, LEAVES)
    with impatient():
        refused(reader)
        let_through(api)
        refused(reader)  # it was let through, and waited in vain
    refused(reader)
    assert len(script.sent("GET", "/version")) == 2
    let_through(api)
    assert reader.server_version() == reader.server_version() == "v1.34.1"


@pytest.mark.parametrize("said", [status(500, "etcd"), status(401, "Unauthorized"), status(429, "later")])
def test_a_server_that_answers_anything_is_not_silent(script: Script, reader: KubernetesReader, said: object) -> None:
    script.on(VERSION, said, said, LEAVES)  # type: ignore[arg-type]
    for _ in range(3):
        try:
            assert reader.server_version() == "v1.34.1"
        except Exception as error:
            assert "has not answered" not in str(error)
    assert len(script.sent("GET", "/version")) >= 3


def test_a_write_that_a_webhook_keeps_does_not_silence_the_server(
    script: Script, api: ApiServer, reader: KubernetesReader
) -> None:
    script.on("PATCH /api/v1/nodes/gpu-1", hang)
    script.on(VERSION, LEAVES)
    with impatient(), pytest.raises(UnknownOutcome):
        KubernetesActor(api).hold(HoldRequest("gpu-1", "inc-7/op-1", "41"))
    assert reader.server_version() == "v1.34.1"


def test_a_write_to_a_silent_server_was_never_sent_and_says_so(
    script: Script, api: ApiServer, reader: KubernetesReader
) -> None:
    script.on(VERSION, hang)
    with impatient(), pytest.raises(TemporaryError):
        KubernetesReader(api).server_version()
    with pytest.raises(TemporaryError) as caught:
        KubernetesActor(api).hold(HoldRequest("gpu-1", "inc-7/op-1", "41"))
    assert caught.value.code == "api_unreachable" and script.sent("PATCH", "/api/v1/nodes/gpu-1") == []


def doubtful(api: ApiServer) -> KubernetesReader:
    return KubernetesReader(api, tuning=Tuning(5.0, 1.0, doubt_after=0.2, first_wait=0.02, longest_wait=0.2))


def test_a_stream_that_died_in_silence_is_found_out_by_a_question_beside_it(script: Script, api: ApiServer) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    script.on(f"WATCH {NODES}", stream(then="hang"), stream(event("ADDED", "late", 10), then="hang"))
    script.on(VERSION, hang)
    with left_in_time(), impatient():
        watcher = Watcher(doubtful(api)).until(lambda w: bool(w.names("added")))
    assert watcher.names("added") == ["late"]
    assert watcher.said("api_timeout") and not watcher.said("api_timeout")[0].connected


def test_a_quiet_stream_of_a_server_that_answers_is_left_alone(script: Script, api: ApiServer) -> None:
    script.on(f"GET {NODES}", page([], "9"))
    script.on(f"WATCH {NODES}", stream(then="hang"))
    script.on(VERSION, status(403, "no"), LEAVES)
    watcher = Watcher(doubtful(api)).until(lambda w: len(script.sent("GET", "/version")) >= 2)
    assert [state.code for state in watcher.states] == ["listing", "watching"]
    assert len(script.sent("GET", "/version")) >= 2 and FAST.doubt_after == 20.0
