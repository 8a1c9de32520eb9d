"""Kernel lines on their way out: plays the log shipper of every node.

It decides what is sent when, and keeps it until somebody has taken it (2xx), so that a receiver that restarts loses
no line. It refuses to cache the receiver's address or token: both are read from their files for every attempt.
"""

import asyncio
from collections import deque
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from fleet.simulator.host import Host
from fleet.simulator.store import Store
from fleet.simulator.timeline import Timeline

BATCH = 500
KEPT = 50_000
NEVER = (400, 413, 422)  # trying the same batch again would block the lines behind it for ever
BACK_OFF = (0.1, 0.2, 0.5, 1.0, 2.0)


class KernelLog:
    def __init__(self, store: Store, timeline: Timeline, url_file: Path, token_file: Path) -> None:
        self.store = store
        self.timeline = timeline
        self.url_file = url_file
        self.token_file = token_file
        self.waiting: deque[dict[str, object]] = deque(maxlen=KEPT)
        self.sent = 0
        self.refused = 0
        self.wake = asyncio.Event()

    def say(self, host: Host, text: str, age: float = 0.0) -> None:
        """A line of this node's kernel; a dead system says nothing."""
        if not host.up:
            return
        date = self.timeline.now() + self.store.skews.get(host.name, 0.0) - age
        line: dict[str, object] = {"date": date, "host": host.name, "ident": "kernel", "source": "kernel", "log": text}
        self.waiting.append(line)
        self.wake.set()

    async def run(self) -> None:
        """Until cancelled: send what waits, and wait for more."""
        failures = 0
        while True:
            if not self.waiting:
                self.wake.clear()
                await self.wake.wait()
            batch = [self.waiting[i] for i in range(min(BATCH, len(self.waiting)))]
            status = await self._send(batch)
            if 200 <= status < 300 or status in NEVER:
                failures = 0
                if status in NEVER:
                    self.refused += len(batch)
                else:
                    self.sent += len(batch)
                for _ in batch:
                    self.waiting.popleft()
            else:
                await asyncio.sleep(BACK_OFF[min(failures, len(BACK_OFF) - 1)])
                failures += 1

    async def _send(self, batch: list[dict[str, object]]) -> int:
        """The status of the answer, 0 without one."""
        try:
            url, token = self.url_file.read_text().strip(), self.token_file.read_text().strip()
            return await asyncio.wait_for(post(f"{url.rstrip('/')}/ingest/logs", token, orjson.dumps(batch)), 5.0)
        except (OSError, ValueError, EOFError, TimeoutError):
            return 0


async def post(url: str, token: str, body: bytes) -> int:
    """The smallest HTTP client that can deliver a log batch; a library would cost more memory than the fleet."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"not an http address: {url}")
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        head = (
            f"POST {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nAuthorization: Bearer {token}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        writer.write(head.encode() + body)
        await writer.drain()
        words = (await reader.readline()).split()
        return int(words[1]) if len(words) > 1 else 0
    finally:
        writer.close()
