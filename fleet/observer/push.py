"""What is pushed to the observer: who may, what is taken, what is answered.

Decides by bearer token (bound to the cluster and perhaps to one node) and by the alias table whose line each is. A line
of no node, of two, or of another node than the token's is counted and refused. 2xx means committed. What is behind
each path is a door of its own; here is what all share: method, token, body. Refuses bodies that are too large, packed
in another way than the door takes, or do not end in time, and more of them at once than memory allows, each with a
sentence. What no second try can mend is answered 4xx, because senders repeat what got a 5xx for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from asgiref.sync import sync_to_async
from django.db import connection

from fleet.access.models import Token
from fleet.access.selectors import token_for
from fleet.inventory.aliases import Match, sentence
from fleet.observer.answers import Answer, Answered, Door, Headers
from fleet.observer.judge import Heard
from fleet.observer.lane import Lane, NotJudged
from fleet.observer.session import DATABASE_AWAY, Session
from fleet.telemetry import packing
from fleet.telemetry.kernellog import Batch, KernelLine, read_batch
from fleet.telemetry.services import MAX_SUBJECTS, OTHERS, Refusal

log = logging.getLogger(__name__)
MAX_BODY = 8 * 1024 * 1024
TOKEN_SECONDS, NO_TOKEN_SECONDS, AHEAD_SECONDS = 10.0, 2.0, 5.0
# Of the encodings snappy is the doors' own affair: it names a block there, which packs the message and not the body.
ENCODINGS = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"snappy"})
EVERYDAY = frozenset({"not_kernel", "bad_time"})  # reasons for which a request is not refused
JSON_KINDS = frozenset({b"text/plain", b"application/x-www-form-urlencoded", b"application/octet-stream",
                        b"application/jsonlines", b"application/jsonl", b"application/x-jsonlines"})  # fmt: skip
Result = TypeVar("Result")
Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


BODY_SECONDS = 30.0
"""How long a body may take to arrive: longer is a sender that holds room which others need."""
BESIDE_BYTES = 64 * 1024
"""Bodies larger than this are read beside the event loop, where nobody waits for them."""
MAX_UNDER_WAY = 64 * 1024 * 1024
"""Bytes of bodies being read or taken at once; beyond that senders are asked to come again."""


@dataclass(slots=True)
class Refusals:
    """Refused input until the writer has counted it: (how many, an example's sentence)."""

    pending: dict[Refusal, tuple[int, str]] = field(default_factory=dict)

    def add(self, refusal: Refusal, text: str, count: int = 1) -> None:
        """Names that somebody invents by the thousand are counted together."""
        if refusal not in self.pending and len(self.pending) >= MAX_SUBJECTS:
            refusal = Refusal(refusal.source, refusal.reason, OTHERS)
        self.pending[refusal] = (self.pending.get(refusal, (0, ""))[0] + count, text)

    def take(self) -> dict[Refusal, tuple[int, str]]:
        taken, self.pending = self.pending, {}
        return taken


@dataclass(slots=True)
class Push:
    """The ASGI application. One event loop."""

    session: Session
    lane: Lane
    refusals: Refusals
    targets: Callable[[], list[dict[str, Any]]]
    doors: dict[str, Door] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    _under_way: int = 0
    _tokens: dict[tuple[str, str], tuple[float, Token | None]] = field(default_factory=dict)
    _asked: dict[tuple[str, str], asyncio.Task[None]] = field(default_factory=dict)  # tokens that are looked up ahead

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except Answered as error:
            answer = Answer(error.status, {"error": str(error)}, error.headers)
        except Exception:
            log.exception("a pushed request failed")
            answer = Answer(500, {"error": "The request failed for a reason that is in the observer's log."})
        self.counts[f"status_{answer.status}"] += 1
        headers = [(name.encode(), value.encode()) for name, value in answer.headers.items()]
        headers.append((b"content-type", b"application/json"))
        if answer.status == 401:
            headers.append((b"www-authenticate", b"Bearer"))
        if answer.status in (413, 503):  # what else is coming of the body is not waited for
            headers.append((b"connection", b"close"))
        if answer.status in (429, 503):
            headers.append((b"retry-after", b"1"))
        body = b"" if answer.status == 204 else orjson.dumps(answer.body)
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        path, method = scope["path"], scope["method"]
        if path == "/healthz":
            return Answer(200, {"observer": self.session.name, "epoch": self.session.epoch})
        if path == "/sd/targets":
            await self._token(scope, ("read", "push"))
            return Answer(200, await asyncio.to_thread(self.targets))
        door = self._logs if path == "/ingest/logs" else self.doors.get(path)
        if door is None:
            raise Answered(404, f"There is nothing at {path}.")
        if method != "POST":
            raise Answered(405, f"What {path} takes is posted.")
        token = await self._token(scope, ("push",))
        if self.session.connected_at is None:  # every name would be unknown, and a fresh line lost for ever
            raise Answered(503, "The nodes of this cluster are not known yet; send it again.")
        return await self._through(door, token, scope, receive)

    async def _through(self, door: Door, token: Token, scope: Scope, receive: Receive) -> Answer:
        """Read the body and hand it over, if there is room."""
        headers = {name.lower(): value for name, value in scope["headers"]}
        said = headers.get(b"content-length", b"")
        size = _length(said) if said else MAX_BODY // 8
        if self._under_way and self._under_way + size > MAX_UNDER_WAY:
            raise Answered(429, "Too much is being sent at once; send it again.")
        self._under_way += size
        try:
            return await door(token, headers, await _body(headers, receive))
        finally:
            self._under_way -= size

    async def _logs(self, token: Token, headers: Headers, body: bytes) -> Answer:
        demand_json(headers)
        return await self.hear(token, await aside(read_batch, body))

    async def hear(self, token: Token, batch: Batch) -> Answer:
        """Kernel lines, whoever spelled them, to the lane."""
        for reason, count in batch.rejected.items():
            self.refusals.add(
                Refusal("push", reason, token.name), f"Log records pushed by {token.name}: {reason}.", count
            )
        if not batch.lines and set(batch.rejected) - EVERYDAY:
            raise Answered(400, f"No log record could be read: {', '.join(sorted(batch.rejected))}.")
        lines, refused = self._resolve(token, batch.lines)
        if token.node and refused["wrong_node"] and not lines:
            raise Answered(403, f"This token may speak only for {token.node}.")
        if lines:
            await self.store(token, lines)
        self.counts["lines"] += len(lines)
        return Answer(200, {"accepted": len(lines), "rejected": dict(batch.rejected + refused)})

    async def store(self, token: Token, heard: Sequence[tuple[str, Heard]]) -> None:
        """Committed when this returns; else the request ends: to come again, or never when it cannot be judged."""
        try:
            stored = await self.lane.take(heard)
        except NotJudged as error:
            text = f"What {token.name} pushed could not be judged."
            self.refusals.add(Refusal("push", "not_judged", token.name), text, len(heard))
            raise Answered(422, f"{text} The reason is in the observer's log.") from error
        if not stored:
            raise Answered(503, "It could not be stored now; send it again.")

    def _resolve(self, token: Token, claimed: list[KernelLine]) -> tuple[list[tuple[str, KernelLine]], Counter[str]]:
        """Whose line each is; what is nobody's is counted."""
        names = self.session.names
        lines: list[tuple[str, KernelLine]] = []
        refused: Counter[str] = Counter()
        for line in claimed:
            match, other = self._named(line)
            node = names.get(match.node_id) if match.node_id is not None else None
            if node is None:
                miss = match.miss or "unknown_node"
                reason, text = str(miss), sentence(miss, other or line.node_claim)
            elif token.node and token.node != node:
                reason, text = "wrong_node", f"A token of {token.node} sent a line of {node}."
            elif other:
                reason, text = "wrong_node", f"A line of {node} names {other[:100]!r}, which is another node."
            else:
                lines.append((node, line))
                continue
            refused[reason] += 1
            self.refusals.add(Refusal("push", reason, line.node_claim), text)
        return lines, refused

    def _named(self, line: KernelLine) -> tuple[Match, str]:
        """The node that a line's names mean, and which of them means two or another. What means none is no claim:
        shippers call themselves by the name of their container."""
        found: Match | None = None
        for name in (line.node_claim, *line.others):
            match = self.session.aliases.resolve(name)
            if match.miss == "ambiguous_node":
                return match, name
            if match.node_id is not None:
                if found is not None and found.node_id != match.node_id:
                    return found, name
                found = match
        return found or Match(None, "unknown_node"), ""

    async def _token(self, scope: Scope, scopes: tuple[str, ...]) -> Token:
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        kind, _, secret = given.partition(" ")
        if kind.lower() != "bearer" or not secret.strip():
            raise Answered(401, "A bearer token is needed: manage.py token create --scope push --cluster NAME.")
        token = None
        for wanted in scopes:
            token = token or await self._cached(secret.strip(), wanted)
        if token is None:
            raise Answered(401, "The token is unknown, revoked, expired or of another scope.")
        if token.cluster and token.cluster != self.session.name:
            raise Answered(403, f"The token belongs to cluster {token.cluster}, this is {self.session.name}.")
        return token

    async def _cached(self, secret: str, scope: str) -> Token | None:
        key = (hashlib.sha256(secret.encode()).hexdigest(), scope)
        mono = self.session.clock.monotonic()
        until, token = self._tokens.get(key, (0.0, None))
        if mono < until:
            if token is not None and until - mono < AHEAD_SECONDS and key not in self._asked:
                self._asked[key] = asyncio.create_task(self._ask_ahead(key, secret))
            return token
        return await self._ask(key, secret)

    async def _ask(self, key: tuple[str, str], secret: str) -> Token | None:
        mono = self.session.clock.monotonic()
        try:
            token = await sync_to_async(self._look_up, thread_sensitive=True)(secret, key[1])
        except DATABASE_AWAY as error:
            raise Answered(503, "The token cannot be checked now; send it again.") from error
        if len(self._tokens) > 10_000:
            self._tokens.clear()
        self._tokens[key] = (mono + (TOKEN_SECONDS if token else NO_TOKEN_SECONDS), token)
        return token

    async def _ask_ahead(self, key: tuple[str, str], secret: str) -> None:
        """Before what is known of a token runs out, so that no line waits for it. Fails in silence: who comes after
        that asks again and is told."""
        try:
            with contextlib.suppress(Answered):
                await self._ask(key, secret)
        finally:
            del self._asked[key]

    def _look_up(self, secret: str, scope: str) -> Token | None:
        try:
            return token_for(secret, scope, self.session.clock.now())
        finally:
            connection.close()


def demand_json(headers: Headers) -> None:
    """Ends the request when it names a type that is no JSON. Many senders name none, or that of a form."""
    kind = headers.get(b"content-type", b"").split(b";")[0].strip().lower()
    if kind and kind not in JSON_KINDS and not kind.endswith((b"+json", b"json")):
        named = kind[:80].decode("latin-1")
        raise Answered(415, f"What is taken here is JSON; set the sender's format to it (it says {named}).")


async def aside(read: Callable[..., Result], body: bytes, *more: Any) -> Result:
    """`read(body, *more)`, which touches nothing else; of a large body in a thread."""
    return await asyncio.to_thread(read, body, *more) if len(body) > BESIDE_BYTES else read(body, *more)


def _length(said: bytes) -> int:
    """What a Content-Length asks for, at most one more than is taken."""
    if not said.isdigit():
        raise Answered(400, "The Content-Length is no number.")
    return int(said) if len(said) < 12 and int(said) <= MAX_BODY else MAX_BODY + 1


async def _body(headers: Headers, receive: Receive) -> bytes:
    """The whole body, unpacked; bounded before and after, and in time."""
    if _length(headers.get(b"content-length", b"0")) > MAX_BODY:
        raise Answered(413, f"A body may have {MAX_BODY} bytes.")
    packed = headers.get(b"content-encoding", b"").strip().lower()
    if packed not in ENCODINGS:
        raise Answered(415, f"A body is packed with gzip or not at all, not with {packed[:40].decode('latin-1')}.")
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _received(receive)
    except TimeoutError as error:
        raise Answered(503, f"The body did not arrive within {BODY_SECONDS:g} s; send it again.") from error
    if packed not in (b"gzip", b"x-gzip"):
        return body
    try:
        return await aside(packing.gzip, body, MAX_BODY)
    except packing.NotPacked as error:
        raise Answered(400, str(error)) from error
    except packing.TooLarge as error:
        raise Answered(413, str(error)) from error


async def _received(receive: Receive) -> bytes:
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Answered(400, "The request ended before its body did.")
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise Answered(413, f"A body may have {MAX_BODY} bytes.")
    return bytes(body)
