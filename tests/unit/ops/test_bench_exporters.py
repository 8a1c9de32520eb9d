"""The texts that load a benchmark: whole, counted, and with a clock that goes."""

from __future__ import annotations

import asyncio
import time

from fleet.ops.bench._exporters import Answers, Text

BODY = b'# TYPE a gauge\na{b="c"} 1\n# TYPE node_time_seconds gauge\nnode_time_seconds 17\nlast 2\n'


def test_an_answer_is_the_text_with_the_clock_of_now() -> None:
    text = Text.of(BODY)
    head, _, rest = text.now().partition(b"node_time_seconds 1")
    assert text.samples == 3
    assert head + b"node_time_seconds 17" + rest[rest.index(b"\n") :] == BODY
    assert abs(float(b"1" + rest.split()[0]) - time.time()) < 60
    assert Text.of(b"a 1\n").now() == b"a 1\n"


def test_what_was_answered_is_counted_and_nothing_else_is_served() -> None:
    async def ask(path: bytes) -> bytes:
        server = await asyncio.get_running_loop().create_server(lambda: Answers({b"/m": Text.of(BODY)}), "127.0.0.1", 0)
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            size = int(head.lower().split(b"content-length: ")[1].split()[0])
            body = await reader.readexactly(size)
            writer.close()
        return head.split(b"\r\n")[0] + body

    before = Answers.answered
    assert asyncio.run(ask(b"/m")).endswith(b"last 2\n")
    assert asyncio.run(ask(b"/other")) == b"HTTP/1.1 404 Not Found"
    assert asyncio.run(ask(b"/answered")) == b"HTTP/1.1 200 OK%d 3" % (before + 3)
