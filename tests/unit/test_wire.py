"""The push port's connections, over real sockets: what strangers can hold and how long."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from fleet.observer import wire
from fleet.observer.wire import MAX_HEAD, MAX_WIRE, BoundedProtocol

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]
WHOLE = b"POST /x HTTP/1.1\r\nhost: a\r\ncontent-length: 2\r\n\r\nok"


async def app(scope: Any, receive: Any, send: Any) -> None:
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        size, more = size + len(message["body"]), message["more_body"]
    body = f"{size} {len(scope['headers'])}".encode()
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(len(body)).encode())]}
    )
    await send({"type": "http.response.body", "body": body})


def talk(*talks: Talk) -> list[Any]:
    async def run() -> list[Any]:
        loop, state = asyncio.get_running_loop(), ServerState()
        config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_keep_alive=5)
        config.load()
        server = await loop.create_server(lambda: BoundedProtocol(config, state, {}), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]

        async def one(each: Talk) -> Any:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                return await asyncio.wait_for(each(reader, writer), 20)
            finally:
                writer.close()

        found = await asyncio.gather(*(one(each) for each in talks))
        assert len(state.connections) <= len(talks)
        server.close()
        return list(found)

    return asyncio.run(run())


def sending(*parts: bytes) -> Talk:
    """Sends, and gives what is answered until the connection ends or is silent."""

    async def each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        try:
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
            return await asyncio.wait_for(reader.read(4096), 5)
        except ConnectionError:
            return b"reset"

    return each


def test_whole_requests_pass_one_after_another_and_in_pieces() -> None:
    pieces = [WHOLE[at : at + 3] for at in range(0, len(WHOLE), 3)]
    first, second = talk(sending(WHOLE + WHOLE), sending(*pieces))
    assert first.startswith(b"HTTP/1.1 200") and b"2 2" in first
    assert b"2 2" in second


@pytest.mark.parametrize(
    "start",
    [b"GET /", b"GET / HTTP/1.1\r\nx: ", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 20_000],
    ids=["address", "value", "many"],
)
def test_a_head_without_end_is_refused(start: bytes) -> None:
    (said,) = talk(sending(start, *[b"a" * 4096] * (MAX_HEAD // 4096 + 2)))
    assert said.startswith(b"HTTP/1.1 431") or said == b"reset"


def test_silent_and_slow_heads_are_ended_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "HEAD_SECONDS", 0.3)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        for sign in b"GET / HTTP/1.1\r\nx: " + b"a" * 1000:
            writer.write(bytes([sign]))
            await asyncio.sleep(0.02)
            if reader.at_eof() or reader._buffer:  # type: ignore[attr-defined]
                break
        return await reader.read(4096)

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        return await reader.read(4096)

    async def idle_after(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        """A second request on a kept connection has its own time."""
        writer.write(WHOLE)
        await reader.readuntil(b"2 2")
        await asyncio.sleep(0.5)
        writer.write(WHOLE)
        return await reader.readuntil(b"2 2")

    slow, still, kept = talk(drip, silent, idle_after)
    assert slow.startswith(b"HTTP/1.1 408") and still.startswith(b"HTTP/1.1 408")
    assert kept.startswith(b"HTTP/1.1 200")


def test_trailers_and_framing_without_end_are_refused() -> None:
    head = b"POST /x HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
    (kept,) = talk(sending(head + b"2\r\nok\r\n0\r\nx: y\r\n\r\n"))
    assert b"2 2" in kept  # the trailer is no header
    (said,) = talk(sending(head + b"0\r\nx: ", *[b"a" * (1 << 20)] * ((MAX_WIRE >> 20) + 2)))
    assert said.startswith(b"HTTP/1.1 413") or said == b"reset"


def test_more_connections_than_there_is_room_for_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "most_connections", lambda: 3)
    said = talk(*[sending(WHOLE)] * 8)
    assert sum(one.startswith(b"HTTP/1.1 200") for one in said) >= 3
    assert any(one.startswith(b"HTTP/1.1 503") and b"retry-after" in one for one in said)
