"""Pushed kernel lines over ASGI: who may, whose they are, and 2xx only after the commit."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import cramjam
import orjson
import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, connections

from fleet.access.models import Token
from fleet.access.services import create_token
from fleet.health.models import Incident
from fleet.inventory.models import Alias, Node
from fleet.observer.doors import open_doors
from fleet.observer.judge import Judge
from fleet.observer.lane import Lane
from fleet.observer.push import MAX_BODY, Push, Refusals
from fleet.observer.session import Session
from fleet.telemetry.models import Rejection
from fleet.telemetry.pushintake import PushIntake
from fleet.telemetry.services import count_rejections
from tests.builders import T0, TestClock
from tests.domain.observer.conftest import know
from tests.unit.telemetry.test_loki import as_json, as_protobuf

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def push(session: Session, judge: Judge) -> Iterator[Push]:
    lane = Lane(session, judge, lambda: None)
    thread = lane.start()
    push = Push(session, lane, Refusals(), lambda: [{"targets": ["10.0.0.1:9400"], "labels": {}}])
    open_doors(push, PushIntake(judge.frame, lambda name: None, 15.0))
    yield push
    session.end("The test is over.")
    thread.join(3)
    assert not thread.is_alive()


def secret(cluster: str = "demo", node: str = "", scope: str = "push") -> str:
    return create_token(name="t", scope=scope, now=T0, by="minseo", cluster=cluster, node=node)[1]


def call(
    push: Push, path: str, body: bytes = b"", token: str = "", method: str = "POST", **headers: str
) -> tuple[int, Any]:
    sent: list[dict[str, Any]] = []
    given = {"authorization": f"Bearer {token}"} if token else {}
    raw = [(k.replace("_", "-").encode(), v.encode()) for k, v in {**given, **headers}.items()]
    scope = {"type": "http", "path": path, "method": method, "headers": raw}

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    asyncio.run(asyncio.wait_for(push(scope, receive, send), 10))
    connections.close_all()
    return sent[0]["status"], orjson.loads(sent[1]["body"] or b"null")


def test_before_the_first_list_of_nodes_nothing_is_refused_for_good(push: Push) -> None:
    push.session.connected_at = None
    status, said = call(push, "/ingest/logs", orjson.dumps([record("gpu-new-01")]), secret())
    assert status == 503 and "send it again" in said["error"]
    assert push.refusals.take() == {}


def record(host: str = "gpu-r01-01", clock: TestClock | None = None, code: int = 79) -> dict[str, Any]:
    at = (clock.now() if clock else T0).timestamp()
    return {"date": at, "host": host, "log": f"NVRM: Xid (PCI:0000:1b:00): {code}, pid=1, GPU has fallen off the bus."}


def test_a_fatal_line_is_committed_when_it_is_answered(push: Push) -> None:
    status, body = call(push, "/ingest/logs", orjson.dumps([record()]), secret())
    assert (status, body["accepted"]) == (200, 1)
    assert Incident.objects.get().node == Node.objects.get(name="gpu-r01-01")


def test_gzip_is_unpacked(push: Push) -> None:
    body = gzip.compress(orjson.dumps([record()]))
    assert call(push, "/ingest/logs", body, secret(), content_encoding="gzip")[0] == 200
    assert Incident.objects.exists()


def test_lines_in_the_form_of_loki_are_heard_too(push: Push, clock: TestClock) -> None:
    body, token = as_json({"node": "gpu-r01-01"}, record()["log"]), secret()
    assert call(push, "/loki/api/v1/push", body, token, content_type="application/json") == (204, None)
    assert call(push, "/loki/api/v1/push", b"{", token, content_type="application/json")[0] == 400
    assert call(push, "/loki/api/v1/push", body, token, content_type="text/plain")[0] == 415
    packed = bytes(cramjam.snappy.compress_raw(as_protobuf({"node": "gpu-r01-02"}, record()["log"])))
    assert call(push, "/loki/api/v1/push", packed, token, content_type="application/x-protobuf")[0] == 204
    assert call(push, "/loki/api/v1/push", b"\xff" * 9, token, content_type="application/x-protobuf")[0] == 400
    assert push.counts["lines"] == 2


@pytest.mark.parametrize(
    ("token", "status"),
    [("", 401), ("mst_wrong", 401)],
)
def test_without_a_token_nothing_is_taken(push: Push, token: str, status: int) -> None:
    got, body = call(push, "/ingest/logs", orjson.dumps([record()]), token)
    assert got == status and body["error"].endswith(".")
    assert not Incident.objects.exists()


def test_a_token_of_another_cluster_or_scope_is_refused(push: Push) -> None:
    body = orjson.dumps([record()])
    assert call(push, "/ingest/logs", body, secret(cluster="west"))[0] == 403
    assert call(push, "/ingest/logs", body, secret(scope="read"))[0] == 401


def test_a_token_of_one_node_speaks_for_that_node_alone(push: Push) -> None:
    token = secret(node="gpu-r01-02")
    status, body = call(push, "/ingest/logs", orjson.dumps([record()]), token)
    assert status == 403 and "gpu-r01-02" in body["error"]
    assert not Incident.objects.exists()
    status, body = call(push, "/ingest/logs", orjson.dumps([record(), record("gpu-r01-02")]), token)
    assert (status, body["accepted"], body["rejected"]) == (200, 1, {"wrong_node": 1})


def test_a_line_of_no_node_or_of_two_is_counted_and_booked_nowhere(push: Push, session: Session) -> None:
    for node in Node.objects.all():
        Alias.objects.create(cluster_id=node.cluster_id, node=node, kind="ip", value="10.0.0.9")
    know(session)
    status, body = call(push, "/ingest/logs", orjson.dumps([record("10.0.0.9"), record("nobody")]), secret())
    assert (status, body["accepted"]) == (200, 0)
    count_rejections(session.cluster_id, push.refusals.take(), T0)
    found = dict(Rejection.objects.values_list("reason", "subject"))
    assert found == {"ambiguous_node": "10.0.0.9", "unknown_node": "nobody"}
    assert not Incident.objects.exists()


def test_bad_bodies_are_refused_in_words(push: Push) -> None:
    token = secret()
    assert call(push, "/ingest/logs", b'[{"log": "cut', token)[0] == 400
    assert call(push, "/ingest/logs", b"x" * (MAX_BODY + 1), token)[0] == 413
    assert call(push, "/ingest/logs", gzip.compress(b"x" * (MAX_BODY + 1)), token, content_encoding="gzip")[0] == 413
    assert call(push, "/ingest/logs", b"plain", token, content_encoding="gzip")[0] == 400


def test_a_database_that_is_away_answers_503_and_loses_nothing(
    push: Push, judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(nodes: set[str]) -> bool:
        raise OperationalError("gone")

    token = secret()
    with monkeypatch.context() as patch:
        patch.setattr(judge, "commit_at_once", away)
        assert call(push, "/ingest/logs", orjson.dumps([record()]), token)[0] == 503
    assert judge.waiting == 1
    assert call(push, "/ingest/logs", orjson.dumps([record()]), token)[0] == 200
    assert Incident.objects.count() == 1


def test_many_requests_at_once_share_commits(push: Push, session: Session) -> None:
    token = secret()
    bodies = [orjson.dumps([record("gpu-r01-01", code=48 + n)]) for n in range(20)]
    answers: list[int] = []
    threads = [
        threading.Thread(target=lambda body=body: answers.append(call(push, "/ingest/logs", body, token)[0]))
        for body in bodies
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [200] * 20


def test_other_paths_say_what_they_are(push: Push) -> None:
    token = secret()
    assert call(push, "/healthz", method="GET")[0] == 200
    assert call(push, "/sd/targets", method="GET", token=token) == (200, [{"targets": ["10.0.0.1:9400"], "labels": {}}])
    assert call(push, "/sd/targets", method="GET")[0] == 401
    assert call(push, "/nothing", token=token)[0] == 404
    assert call(push, "/ingest/logs", method="GET", token=token)[0] == 405


def test_an_expired_token_is_unknown(push: Push, clock: TestClock) -> None:
    token = create_token(
        name="t", scope="push", now=T0, by="minseo", cluster="demo", expires_at=T0 + timedelta(seconds=5)
    )[1]
    assert call(push, "/ingest/logs", orjson.dumps([record()]), token)[0] == 200
    clock.tick(30)
    assert call(push, "/ingest/logs", orjson.dumps([record()]), token)[0] == 401


def test_no_line_waits_for_a_token_that_is_used_again_and_again(
    push: Push, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked up ahead, and what is found then holds: one that was revoked is refused soon."""
    token, waited, look_up = secret(), [], Push._look_up

    def counted(self: Push, *asked: str) -> Token | None:
        waited.append(not self._asked)
        return look_up(self, *asked)

    async def scene() -> list[bool]:
        known = []
        for seconds in (0, 6, 6, 1, 0):
            clock.tick(seconds)
            known.append(await push._cached(token, "push") is not None)
            if len(known) == 3:
                await sync_to_async(Token.objects.update)(revoked_at=clock.now())
            await asyncio.gather(*push._asked.values())
        return known

    monkeypatch.setattr(Push, "_look_up", counted)
    assert asyncio.run(scene()) == [True, True, True, False, False]
    assert waited == [True, False, False]


def test_a_token_that_cannot_be_looked_up_ahead_holds_until_it_runs_out(
    push: Push, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("gone")

    token, body = secret(), orjson.dumps([record()])
    assert call(push, "/ingest/logs", body, token)[0] == 200
    monkeypatch.setattr(Push, "_look_up", away)
    clock.tick(6)
    assert call(push, "/ingest/logs", body, token)[0] == 200
    clock.tick(6)
    assert call(push, "/ingest/logs", body, token)[0] == 503


def test_a_line_that_names_two_nodes_is_neithers(push: Push, judge: Judge) -> None:
    """A relay that calls itself the host of what it passes on must not be taken out for it."""
    given = record("gpu-r01-01")
    relayed = {**given, "log": f"Nov 29 01:02:03 gpu-r01-02 kernel: {given['log']}"}
    status, said = call(push, "/ingest/logs", orjson.dumps([relayed]), secret())
    assert (status, said["accepted"], said["rejected"]) == (200, 0, {"wrong_node": 1})
    itself = {**given, "log": f"Nov 29 01:02:03 GPU-R01-01 kernel: {given['log']}", "hostname": "some-pod"}
    status, said = call(push, "/ingest/logs", orjson.dumps([itself]), secret())
    assert (status, said["accepted"]) == (200, 1)
    shipped = {**given, "host": "fluent-bit-x7k2p", "node": "gpu-r01-01"}
    status, said = call(push, "/ingest/logs", orjson.dumps([shipped]), secret())
    assert (status, said["accepted"]) == (200, 1)


def test_what_others_than_the_kernel_wrote_is_counted_and_no_fault_of_the_sender(push: Push) -> None:
    quoted = {**record("gpu-r01-01"), "_TRANSPORT": "stdout"}
    status, said = call(push, "/ingest/logs", orjson.dumps([quoted]), secret())
    assert (status, said) == (200, {"accepted": 0, "rejected": {"not_kernel": 1}})
    assert not Incident.objects.exists()
