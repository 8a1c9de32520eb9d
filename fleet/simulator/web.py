"""HTTP as the parts of the simulator see it: a request, a response, and nothing of ASGI beyond this file.

It decides how bytes go out and how a connection is cut. It refuses to know any path.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl

import orjson

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON = "application/json"
TEXT = "text/plain; version=0.0.4; charset=utf-8"


class Cut(Exception):
    """Raised by a stream to break the connection where it stands, without the last chunk."""


@dataclass(slots=True)
class Request:
    method: str
    path: str
    query: dict[str, str]
    headers: dict[bytes, bytes]
    receive: Receive
    body: bytes = b""
    gone: bool = False

    def header(self, name: str) -> str:
        return self.headers.get(name.encode(), b"").decode("latin-1")

    def flag(self, name: str) -> bool:
        return self.query.get(name, "").lower() in ("1", "true", "t")

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass(slots=True)
class Response:
    status: int = 200
    body: bytes = b""
    content_type: str = JSON
    headers: dict[str, str] = field(default_factory=dict)
    stream: AsyncIterator[bytes] | None = None


def json_response(value: Any, status: int = 200, **headers: str) -> Response:
    return Response(status, orjson.dumps(value), headers={k.replace("_", "-"): v for k, v in headers.items()})


async def read_request(scope: MutableMapping[str, Any], receive: Receive) -> Request:
    headers = dict(scope["headers"])
    query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
    request = Request(scope["method"], scope["path"], query, headers, receive)
    if scope["method"] in ("GET", "HEAD"):
        return request
    parts = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            request.gone = True
            break
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            break
    request.body = b"".join(parts)
    return request


async def send_until_gone(response: Response, receive: Receive, send: Send) -> None:
    """Send a stream, and stop as soon as the client hangs up: nobody would notice otherwise until the next event."""
    sender = asyncio.ensure_future(send_response(response, send))
    gone = asyncio.ensure_future(_hang_up(receive))
    try:
        await asyncio.wait({sender, gone}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()
        if not sender.done():
            sender.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await sender


async def _hang_up(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_response(response: Response, send: Send) -> None:
    headers = [(b"content-type", response.content_type.encode())]
    headers += [(k.lower().encode(), v.encode()) for k, v in response.headers.items()]
    if response.stream is None and response.status != 204:
        headers.append((b"content-length", str(len(response.body)).encode()))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    if response.stream is not None:
        async for part in response.stream:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})
        return
    await send({"type": "http.response.body", "body": response.body})
