"""The doors under hostile senders: the right status, nobody else's loss, and no poison that comes back for ever."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import cramjam
import orjson
import pytest
from django.db import connections
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleet.health.models import Incident
from fleet.health.rules.engine import RuleEngine
from fleet.inventory import services as inventory
from fleet.inventory.models import Device, Node
from fleet.observer import push as pushing
from fleet.observer import writedoor
from fleet.observer.judge import Judge
from fleet.observer.keeping import Keeper
from fleet.observer.push import MAX_BODY, Push, Refusals
from fleet.observer.session import Session
from fleet.telemetry.intake import Intake
from fleet.telemetry.models import Rejection
from fleet.telemetry.services import MAX_SUBJECTS, OTHERS, Refusal, count_rejections
from tests.builders import T0, TestClock
from tests.domain.inventory.seen import a_node_seen
from tests.domain.observer.test_push import call, push, record, secret
from tests.fuzz.seeds import seeds
from tests.patience import PATIENCE
from tests.unit.telemetry.writes import block, first, gpu

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["push"]
DOORS = ("/ingest/logs", "/ingest/events", "/ingest/alertmanager", "/loki/api/v1/push", "/api/v1/write")
SEEDS = seeds()
MS = int(T0.timestamp() * 1000)
WRITE = {"content_type": "application/x-protobuf", "content_encoding": "snappy"}


@pytest.fixture
def lines() -> bytes:
    return orjson.dumps([record()])


# -- how a body is packed and called ----------------------------------------------------------------------------------


def test_a_body_packed_in_several_members_is_read_whole(push: Push) -> None:
    body = gzip.compress(orjson.dumps(record())) + gzip.compress(b"\n" + orjson.dumps(record("gpu-r01-02")))
    assert call(push, "/ingest/logs", body, secret(), content_encoding="GZIP")[1]["accepted"] == 2


@pytest.mark.parametrize(
    ("packed", "encoding", "status"),
    [
        (lambda b: b, "identity", 200),
        (gzip.compress, "x-gzip", 200),
        (lambda b: gzip.compress(b)[:-4], "gzip", 400),
        (lambda b: b, "gzip", 400),
        (lambda b: gzip.compress(b" " * (MAX_BODY + 1)), "gzip", 413),
        (lambda b: b, "deflate", 415),
        (lambda b: b, "zstd", 415),
        (lambda b: b, "br", 415),
        (lambda b: b, "gzip, gzip", 415),
    ],
)
def test_each_packing_has_its_answer(push: Push, lines: bytes, packed: Any, encoding: str, status: int) -> None:
    assert call(push, "/ingest/logs", packed(lines), secret(), content_encoding=encoding)[0] == status
    assert push._under_way == 0


@pytest.mark.parametrize(
    "kind", ["application/json; charset=utf-8", "application/x-ndjson", "text/plain", "", "application/stream+json"]
)
def test_json_by_any_of_its_names_is_read(push: Push, lines: bytes, kind: str) -> None:
    assert call(push, "/ingest/logs", lines, secret(), content_type=kind)[0] == 200


@pytest.mark.parametrize("kind", ["application/msgpack", "application/x-protobuf", "multipart/form-data", "image/png"])
@pytest.mark.parametrize("path", DOORS[:4])
def test_what_is_no_json_is_told_so(push: Push, path: str, kind: str) -> None:
    status, said = call(push, path, b"\x93\x01", secret(), content_type=kind)
    expected = 400 if path.startswith("/loki") and "protobuf" in kind else 415
    assert status == expected and said["error"].endswith((".", ")"))


# -- bodies that do not come, and too many of them --------------------------------------------------------------------


def ask(push: Push, path: str, receive: Any, token: str, **headers: str) -> int:
    sent: list[dict[str, Any]] = []
    raw = [(b"authorization", f"Bearer {token}".encode())]
    raw += [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async def run() -> None:
        await asyncio.wait_for(
            push({"type": "http", "path": path, "method": "POST", "headers": raw}, receive, send), PATIENCE
        )

    asyncio.run(run())
    connections.close_all()
    return int(sent[0]["status"])


def test_a_body_that_does_not_come_gives_its_room_back(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pushing, "BODY_SECONDS", 0.2)
    token, parts = secret(), iter([b"[", b"{", b'"'])

    async def never() -> dict[str, Any]:
        await asyncio.sleep(0.15)
        return {"type": "http.request", "body": next(parts, b" "), "more_body": True}

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    assert (
        ask(push, "/ingest/logs", never, token, content_length=str(MAX_BODY)) == 503
    )  # nothing is wrong with it, so it may come again
    assert ask(push, "/ingest/logs", gone, token) == 400
    assert push._under_way == 0


@pytest.mark.parametrize(
    ("length", "status"), [("9" * 5000, 413), (str(MAX_BODY + 1), 413), ("-1", 400), ("x", 400), ("\u00b2", 400)]
)
def test_a_length_that_cannot_be_is_answered_at_once(push: Push, length: str, status: int) -> None:
    async def never() -> dict[str, Any]:
        raise AssertionError("nobody should wait for this body")

    assert ask(push, "/ingest/logs", never, secret(), content_length=length) == status


def test_unpacked_requests_that_wait_are_bounded_too(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten kilobytes on the wire may be a megabyte here, and every one of them waits between its parts."""
    monkeypatch.setattr(writedoor, "MAX_HELD", 100_000)
    body = bytes(cramjam.snappy.compress_raw(block(1, b"\x0a\x00" * 100) * 400))
    token, statuses = secret(), list[int]()

    async def one() -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            statuses.append(message.get("status", 0))

        raw = [(b"authorization", f"Bearer {token}".encode()), (b"content-type", b"application/x-protobuf")]
        await push({"type": "http", "path": "/api/v1/write", "method": "POST", "headers": raw}, receive, send)

    async def run() -> None:
        await one()  # the token is known from here on
        statuses.clear()
        await asyncio.gather(*(one() for _ in range(8)))

    asyncio.run(run())
    connections.close_all()
    assert statuses.count(429) >= 1 and statuses.count(400) + statuses.count(204) >= 1


# -- poison -----------------------------------------------------------------------------------------------------------


def test_what_cannot_be_judged_is_refused_alone_and_for_good(push: Push, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RuleEngine.on_kernel_line

    def fragile(self: RuleEngine, line: Any, facts: Any, now: Any) -> Any:
        time.sleep(0.05)  # so that the others come into one turn
        if "poison" in line.text:
            raise OverflowError("date value out of range")
        return whole(self, line, facts, now)

    monkeypatch.setattr(RuleEngine, "on_kernel_line", fragile)
    token = secret()
    bad = orjson.dumps([{**record(), "log": "poison"}])
    bodies = [orjson.dumps([record("gpu-r01-01")]), bad, orjson.dumps([record("gpu-r01-02", code=48)]), bad]
    statuses: dict[int, int] = {}

    async def one(number: int) -> None:
        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": bodies[number], "more_body": False}

        async def send(message: dict[str, Any]) -> None:
            statuses.setdefault(number, message.get("status", 0))

        raw = [(b"authorization", f"Bearer {token}".encode())]
        await push({"type": "http", "path": "/ingest/logs", "method": "POST", "headers": raw}, receive, send)

    async def run() -> None:
        await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(4))), PATIENCE)

    asyncio.run(run())
    connections.close_all()
    assert statuses == {0: 200, 1: 422, 2: 200, 3: 422}
    assert Incident.objects.count() == 2
    assert push.refusals.pending[Refusal("push", "not_judged", "t")][0] == 2


@pytest.fixture
def odd_clock(judge: Judge, clock: TestClock) -> Iterator[None]:
    target = judge.frame.target("gpu-r01-01", "node", 15.0)
    judge.frame.t.skew[target.index] = 1e30
    yield


@pytest.mark.parametrize("at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 1e19, "1970-01-01T00:00:01Z"])
def test_no_time_and_no_clock_stops_a_fatal_line(push: Push, odd_clock: None, at: Any) -> None:
    body = orjson.dumps([{**record(), "date": at}])
    status, said = call(push, "/ingest/logs", body, secret())
    assert (status, said["accepted"]) == (200, 1)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(DOORS),
    st.sampled_from([name for name in SEEDS if name not in ("inventory_csv", "plain_yaml")]).flatmap(
        lambda name: st.sampled_from(SEEDS[name])
    ),
    st.integers(0, 400),
    st.binary(max_size=4),
    st.sampled_from(
        [
            "",
            "application/json",
            "application/x-protobuf",
            "application/x-protobuf;proto=io.prometheus.write.v2.Request",
        ]
    ),
    st.booleans(),
)
def test_no_body_is_answered_as_if_it_could_be_sent_again(
    push: Push, path: str, body: bytes, at: int, put: bytes, kind: str, packed: bool
) -> None:
    """What no second try can mend is 4xx: a sender repeats what got a 5xx for ever."""
    body = body[:at] + put + body[at + len(put) :]
    body = bytes(cramjam.snappy.compress_raw(body)) if packed else body
    token = _TOKENS.setdefault(id(push), secret())
    status, _ = call(push, path, body, token, content_type=kind)
    assert status in (200, 204, 400, 403, 413, 415), status


_TOKENS: dict[int, str] = {}


# -- what is kept of it -----------------------------------------------------------------------------------------------


def test_invented_names_are_counted_together(push: Push, session: Session) -> None:
    many = [record(f"n\0{number}" if number % 2 else f"{number}-" + "x" * 900) for number in range(3000)]
    status, said = call(push, "/ingest/logs", json.dumps(many).encode(), secret())
    assert (status, said["rejected"]) == (200, {"unknown_node": 3000})
    assert len(push.refusals.pending) <= MAX_SUBJECTS + 1
    count_rejections(session.cluster_id, push.refusals.take(), T0)
    assert sum(Rejection.objects.values_list("count", flat=True)) == 3000
    assert Rejection.objects.filter(subject=OTHERS).exists()


def test_a_refusal_with_any_text_is_counted(session: Session) -> None:
    refusals = Refusals()
    refusals.add(Refusal("push", "no_host", "a\0\ud800b"), "c\0\udfff")
    count_rejections(session.cluster_id, refusals.take(), T0)
    assert Rejection.objects.get().subject == "a?b"


@pytest.mark.parametrize("gpu_index", ["\u00b2", "9" * 5000, "-1", "x", "٣", "7"])
def test_an_exporter_that_lies_about_its_parts_stops_no_bookkeeping(
    session: Session, judge: Judge, gpu_index: str
) -> None:
    intake = Intake(judge.frame)
    target = judge.frame.target("gpu-r01-01", "dcgm", 15.0)
    long = [f"{'U' * 250}{number}" for number in range(3)]
    told = f'gpu="{gpu_index}",modelName="{"m" * 1000}"'
    text = "".join(f'DCGM_FI_DEV_GPU_TEMP{{UUID="{uuid}",{told}}} 41\n' for uuid in (*long, "GPU-1", "U" * 5000))
    intake.scraped(target, text.encode(), 1000.0, T0.timestamp())
    assert target.rejects == {"bad_label": 1}
    keeper = Keeper(session, judge.frame, intake, Refusals(), lambda nodes: None)
    keeper.parts()
    for _ in range(3):
        keeper.record()
    assert Device.objects.get(key="GPU-1").index == (7 if gpu_index == "7" else None)


def test_a_node_that_lies_about_itself_is_kept_like_any_other(session: Session) -> None:
    long = "x" * 10_000
    odd = a_node_seen("gpu-r01-01", boot_id=long, kernel=long, os_image=long, kubelet=long, uid=long, system_uuid=long,
                      provider_id=long, machine_id=long, ready_reason=long, resource_version=long,
                      gpu_capacity=10**9, labels={"nvidia.com/gpu.count": "\u00b2"})  # fmt: skip
    for _ in range(2):
        inventory.sync_nodes(session.cluster, [odd, a_node_seen("gpu-r01-02")], None, T0, session.epoch)
    assert Node.objects.get(name="gpu-r01-02").boot_id == "boot-gpu-r01-02-1"


def test_a_pushed_bomb_is_answered_and_a_good_request_passes_after_it(push: Push) -> None:
    token = secret()
    bomb = bytes(cramjam.snappy.compress_raw(b"\x0a\x00" * (1 << 20)))
    assert len(bomb) < 200_000
    assert call(push, "/api/v1/write", bomb, token, **WRITE)[0] == 413
    good = first([(gpu("gpu-r01-01"), [(41.0, MS)])])
    assert call(push, "/api/v1/write", good, token, **WRITE)[0] == 204
