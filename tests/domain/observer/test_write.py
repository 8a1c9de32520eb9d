"""Remote write over ASGI: what is answered to whom, and that 2xx means taken."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import cramjam
import pytest
from django.db import connections

from fleet.access.services import create_token
from fleet.observer.judge import Judge
from fleet.observer.lane import Lane
from fleet.observer.push import MAX_UNDER_WAY, Push, Refusals
from fleet.observer.session import Session
from fleet.observer.writedoor import SECOND, WriteDoor
from fleet.telemetry import names
from fleet.telemetry.models import Rejection
from fleet.telemetry.pushintake import PushIntake
from fleet.telemetry.series import AMBIGUOUS, Ambiguous
from fleet.telemetry.services import count_rejections
from tests.builders import T0
from tests.unit.telemetry import writes
from tests.unit.telemetry.writes import gpu

pytestmark = pytest.mark.django_db(transaction=True)
NODE, MS = "gpu-r01-01", int(T0.timestamp() * 1000)
TWO = f"application/x-protobuf;proto={SECOND}"


@pytest.fixture
def push(session: Session, judge: Judge) -> Iterator[Push]:
    def resolve(name: str) -> str | Ambiguous | None:
        match = session.aliases.resolve(name)
        return AMBIGUOUS if match.miss == "ambiguous_node" else session.names.get(match.node_id or 0)

    push = Push(session, Lane(session, judge, lambda: None), Refusals(), list)
    door = WriteDoor(session, PushIntake(judge.frame, resolve, 15.0), push.refusals)
    push.doors = {"/api/v1/write": door.take}
    yield push


def secret(node: str = "") -> str:
    return create_token(name="prometheus", scope="push", now=T0, by="minseo", cluster="demo", node=node)[1]


def write(push: Push, token: str, body: bytes, kind: str = "application/x-protobuf") -> tuple[int, dict[str, str], str]:
    sent: list[dict[str, Any]] = []
    headers = {"authorization": f"Bearer {token}", "content-type": kind, "content-encoding": "snappy"}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "path": "/api/v1/write", "method": "POST", "headers": raw}
    asyncio.run(asyncio.wait_for(push(scope, receive, send), 10))
    connections.close_all()
    answered = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], answered, sent[1]["body"].decode()


@pytest.mark.parametrize(("kind", "pack"), [("application/x-protobuf", writes.first), (TWO, writes.second)])
def test_samples_lie_in_the_frame_when_they_are_answered(push: Push, judge: Judge, kind: str, pack: Any) -> None:
    many = [(gpu(NODE, index), [(61.0, MS)]) for index in range(8)]
    status, answered, body = write(push, secret(), pack([*many, ({"__name__": "up", "job": "x"}, [(1.0, MS)])]), kind)
    assert (status, body) == (204, "")
    assert judge.frame.value(names.GPU_TEMP, NODE, f"GPU-{NODE}-7") == 61.0
    assert answered["X-Prometheus-Remote-Write-Samples-Written"] == "8"
    assert answered["X-Prometheus-Remote-Write-Histograms-Written"] == "0"
    assert answered["X-Prometheus-Remote-Write-Exemplars-Written"] == "0"


def test_garbage_is_refused_in_words(push: Push) -> None:
    token = secret()
    for body in (b"", b"\xff" * 9, bytes(cramjam.snappy.compress_raw(b"\x0a\xff"))):
        status, _, text = write(push, token, body)
        assert status == 400 and text.endswith('."}')
    malformed = bytes(cramjam.snappy.compress_raw(writes.block(1, b"\x0a\xff")))
    assert write(push, token, malformed)[0] == 400
    assert write(push, token, bytes(cramjam.snappy.compress_raw(b"\0" * (33 << 20))))[0] == 413
    for kind in ("application/json", "application/x-protobuf;proto=some.Other"):
        assert write(push, token, writes.first([]), kind)[0] == 415
    assert write(push, "mst_wrong", writes.first([]))[0] == 401
    assert write(push, token, writes.first([]))[0] == 204


def test_a_token_of_one_node_writes_for_it_alone(push: Push, judge: Judge, session: Session) -> None:
    token = secret(node="gpu-r01-02")
    status, _, text = write(push, token, writes.first([(gpu(NODE), [(61.0, MS)])]))
    assert status == 403 and "gpu-r01-02" in text
    assert judge.frame.value(names.GPU_TEMP, NODE, f"GPU-{NODE}-0") is None
    count_rejections(session.cluster_id, push.refusals.take(), T0)
    assert list(Rejection.objects.values_list("reason", "subject", "count")) == [("wrong_node", NODE, 1)]


def test_what_belongs_to_no_node_is_counted_and_does_not_stop_the_rest(push: Push, session: Session) -> None:
    many = [(gpu("nobody"), [(61.0, MS)]), (gpu(NODE), [(61.0, MS)]), (gpu(NODE, 1), [(61.0, MS - 400_000)])]
    status, answered, _ = write(push, secret(), writes.first(many))
    assert (status, answered["X-Prometheus-Remote-Write-Samples-Written"]) == (204, "1")
    count_rejections(session.cluster_id, push.refusals.take(), T0)
    assert list(Rejection.objects.values_list("reason", "subject")) == [("unknown_node", "nobody")]


def test_senders_are_asked_to_come_again(push: Push, session: Session) -> None:
    token, body = secret(), writes.first([(gpu(NODE), [(61.0, MS)])])
    push._under_way = MAX_UNDER_WAY
    status, answered, _ = write(push, token, body)
    assert (status, answered["retry-after"]) == (429, "1")
    push._under_way = 0
    session.know_nodes({})
    status, answered, _ = write(push, token, body)
    assert (status, answered["retry-after"]) == (503, "1")
