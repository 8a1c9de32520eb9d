"""Live streams cost neither a database connection nor a thread, and end with the server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httptools
import orjson
import pytest
import redis
from django.db import connection
from django.test import Client

from dashboard.hub import LATELY, REREAD, Batch, Hub
from fleet.access.models import User
from fleet.bus.outbox import HINT_CHANNEL
from tests.builders import a_cluster
from tests.patience import PATIENCE, until
from tests.web import web_process

pytestmark = pytest.mark.django_db(transaction=True)
STREAMS = 20
POOL = 3  # so small that streams which held a connection each would leave the others waiting


class Stream:
    """One open `/live/` request, read as it comes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.seen = bytearray()
        self.status = 0
        self.parser = httptools.HttpResponseParser(self)

    def on_body(self, body: bytes) -> None:
        self.seen += body

    def on_headers_complete(self) -> None:
        self.status = self.parser.get_status_code()

    async def until(self, text: bytes, within: float = PATIENCE) -> None:
        async with asyncio.timeout(within):
            while text not in self.seen:
                data = await self.reader.read(4096)
                assert data, f"the stream ended before {text!r}: {bytes(self.seen)!r}"
                self.parser.feed_data(data)

    async def ended(self, within: float = PATIENCE) -> None:
        async with asyncio.timeout(within):
            while await self.reader.read(4096):
                pass


async def _open(base: str, session: str, query: str = "") -> Stream:
    host, port = base.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /live/{query} HTTP/1.1\r\nHost: {host}\r\nCookie: sessionid={session}\r\n\r\n".encode())
    await writer.drain()
    return Stream(reader, writer)


def _count() -> int:
    """From a thread of its own, whose connection neither counts nor stays."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            return int(cursor.fetchone()[0])
    finally:
        connection.close()


def _threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def test_twenty_streams_hold_no_connection_and_no_thread_and_end_with_the_server(
    person: Callable[..., User], redis_url: str, broker: redis.Redis, tmp_path: Path
) -> None:
    a_cluster()
    client = Client()
    client.force_login(person("viewer"))
    session = client.cookies["sessionid"].value

    before = _count()
    with web_process(redis_url, tmp_path / "web.log", MUSTER_DB_POOL=str(POOL)) as (base, process):

        async def story() -> None:
            first = await _open(base, session)
            await first.until(b"event: hello")
            threads = _threads(process.pid)
            others = await asyncio.gather(*(_open(base, session) for _ in range(STREAMS - 1)))
            streams = [first, *others]
            await asyncio.gather(*(stream.until(b"event: hello") for stream in others))
            assert all(stream.status == 200 for stream in others)
            await asyncio.to_thread(until, lambda: _count() <= before + 1 + POOL, every=0.1)
            assert _threads(process.pid) <= threads + 4

            hints = [{"topic": "node", "ref": "7", "node": "gpu-r01-01", "cluster": 1}]
            broker.publish(HINT_CHANNEL, orjson.dumps(hints))
            await asyncio.gather(*(stream.until(b"gpu-r01-01") for stream in streams))

            process.send_signal(signal.SIGTERM)
            await asyncio.gather(*(stream.ended() for stream in streams))

        asyncio.run(story())
        assert process.wait(PATIENCE) in (0, -signal.SIGTERM)


def test_a_viewer_of_one_cluster_hears_nothing_of_another(
    person: Callable[..., User], redis_url: str, broker: redis.Redis, tmp_path: Path
) -> None:
    mine, other = a_cluster("seoul-1"), a_cluster("busan-1")
    client = Client()
    client.force_login(person("viewer", cluster="seoul-1"))
    session = client.cookies["sessionid"].value

    with web_process(redis_url, tmp_path / "web.log") as (base, _process):

        async def story() -> None:
            stream = await _open(base, session)
            await stream.until(b"event: hello")
            for cluster, node in ((other, "gpu-other"), (mine, "gpu-mine")):
                body = orjson.dumps([{"topic": "node", "ref": "1", "node": node, "cluster": cluster.pk}])
                broker.publish(HINT_CHANNEL, body)
            await stream.until(b"gpu-mine")
            assert b"gpu-other" not in stream.seen

        asyncio.run(story())


def test_a_page_that_was_asked_for_before_anybody_listened_reads_all_again(
    person: Callable[..., User], redis_url: str, broker: redis.Redis, tmp_path: Path
) -> None:
    client = Client()
    client.force_login(person("viewer"))
    session = client.cookies["sessionid"].value

    with web_process(redis_url, tmp_path / "web.log") as (base, _process):

        async def story() -> None:
            for query in ("?age=1", "?age=500", "?age=999999999"):
                stream = await _open(base, session, query)
                await stream.until(b"event: reread")
            for query in ("", "?age=", "?age=0", "?age=-1", "?age=1e3", "?age=9999999999"):
                stream = await _open(base, session, query)
                await stream.until(b"event: hello")
                broker.publish(HINT_CHANNEL, orjson.dumps([{"topic": "node", "ref": "1", "node": query or "none"}]))
                await stream.until(b"event: hints")
                assert b"reread" not in stream.seen, query

        asyncio.run(story())


def _hints(*refs: int) -> list[dict[str, Any]]:
    return [{"topic": "node", "ref": str(ref), "node": "", "cluster": ref} for ref in refs]


def test_a_page_hears_what_was_told_while_it_was_on_its_way() -> None:
    async def story() -> None:
        known = Hub("redis://nowhere")
        known._pump = asyncio.create_task(asyncio.sleep(3600))  # stands for one that has subscribed
        known._tried.set()
        known._knows_since = start = asyncio.get_running_loop().time() - 60
        known._tell(Batch(_hints(1, 2)))
        known._tell(Batch(_hints(2, 3)))
        async with known.listen(0.5) as page, known.listen() as script:
            assert script.empty()
            missed = page.get_nowait()
            assert isinstance(missed, Batch) and page.empty()
            assert missed.event_for(None) == b"event: missed\ndata: " + orjson.dumps(_hints(1, 2, 3)) + b"\n\n"
            assert missed.event_for(frozenset({3})) == b"event: missed\ndata: " + orjson.dumps(_hints(3)) + b"\n\n"
            assert missed.event_for(frozenset({4})) == b""
        async with known.listen(61) as page:
            assert page.get_nowait() is REREAD
        for first in range(0, 4 * LATELY, 100):
            known._tell(Batch(_hints(*range(first, first + 100))))
            assert len(known._lately) <= LATELY
        assert known._knows_since > start
        known.close()

    asyncio.run(story())


def test_without_a_login_there_is_no_stream(client: Client) -> None:
    assert client.get("/live/").status_code == 401
