"""List pages, then watch for ever: one resource as a stream of Changes.

Decides when to list again (410, a stream that makes no progress), when to reconnect from the last resourceVersion and
how long to wait. Refuses to end for any failure: only `stop()` ends the stream, and a bad object costs only itself.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from typing import Any

import orjson
import urllib3

from fleet.adapters.kubernetes.client import PAGE_SECONDS, ApiServer
from fleet.adapters.kubernetes.decode import version_of
from fleet.adapters.kubernetes.doubt import Doubt
from fleet.adapters.kubernetes.errors import Answer, Call, broken, refused
from fleet.adapters.kubernetes.state import StreamState
from fleet.adapters.kubernetes.wire import Cutter
from fleet.ports.clock import Clock
from fleet.ports.cluster import Change, ChangeKind, NodeSeen, PodSeen, WatchState
from fleet.ports.errors import PortError, ResyncNeeded, TemporaryError
from fleet.ports.gangs import Spoken
from fleet.ports.shapes import items, mapping, text

PAGE = 500
PAGED_TRIES = 2
"""A list whose pages expire on the way (a slow server, a history that is thrown away fast) is then asked for whole."""
LONGEST_LINE = 64 << 20
_NOT_THE_VERSION = (
    "api_unreachable",
    "api_timeout",
    "api_certificate",
    "credential_refused",
    "missing_right",
    "throttled",
)
_KINDS: dict[str, ChangeKind] = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}


@dataclass(frozen=True, slots=True)
class Tuning:
    """Waits of a stream; tests make them short."""

    watch_seconds: float = 290.0
    silence_margin: float = 15.0
    doubt_after: float = 20.0  # without a word from an open stream, the server is asked whether it is there
    first_wait: float = 0.2
    longest_wait: float = 30.0
    fruitless_limit: int = 3


@dataclass(frozen=True, slots=True)
class Resource:
    """What is listed and watched, and how one raw object is read."""

    name: str
    path: str
    params: dict[str, str]
    decode: Callable[[Any], NodeSeen | PodSeen | Spoken]
    key: Callable[[Any], str]


@dataclass(slots=True)
class _Cursor:
    """Where the stream stands: the last resourceVersion seen ("" means list), and how it fares."""

    version: str = ""
    listed: bool = False
    progressed: bool = False
    fruitless: int = 0
    wait: float = 0.0
    opened_at: float | None = None

    @property
    def thrives(self) -> bool:
        """Events came, or the stream stayed open for a while: the trouble before it is over."""
        return self.progressed or (self.opened_at is not None and time.monotonic() - self.opened_at > 5.0)


class ListWatch:
    """One stream. `counts` names what went wrong so far: cut, garbage, resync, skipped, lost."""

    def __init__(
        self, api: ApiServer, resource: Resource, counts: Counter[str], clock: Clock, tuning: Tuning | None = None
    ) -> None:
        self._api = api
        self._resource = resource
        self._counts = counts
        self._clock = clock
        self._tuning = tuning or Tuning()

    def run(self, stop: Callable[[], bool], on_state: Callable[[WatchState], None]) -> Iterator[Change]:
        cursor = _Cursor()
        state = StreamState(self._resource.name, self._api.address, self._clock, on_state)
        while not stop():
            cursor.progressed, cursor.opened_at = False, None
            try:
                if not cursor.version:
                    state.listing()
                    yield from self._list(cursor, stop)
                yield from self._watch(cursor, stop, state)
                cursor.fruitless = 0
                cursor.wait = 0.0 if cursor.thrives else self._next_wait(cursor.wait)
            except PortError as error:
                if stop():
                    return
                self._learn(cursor, error)
                state.lost(error, cursor.wait)
            self._pause(cursor.wait, stop)

    def _learn(self, cursor: _Cursor, error: PortError) -> None:
        """From a failure: list again or go on, and how long to wait first."""
        self._counts["lost"] += 1
        cursor.fruitless = 0 if cursor.thrives else cursor.fruitless + 1
        cursor.wait = self._next_wait(0.0 if cursor.thrives else cursor.wait)
        if isinstance(error, TemporaryError) and error.retry_after:
            cursor.wait = max(cursor.wait, min(error.retry_after, self._tuning.longest_wait))
        # A version that a reachable server keeps failing at (garbage, 400, 500) may itself be the trouble.
        stuck = cursor.fruitless >= self._tuning.fruitless_limit and error.code not in _NOT_THE_VERSION
        if cursor.version and (stuck or isinstance(error, ResyncNeeded)):
            self._counts["resync"] += 1
            cursor.version = ""

    def _next_wait(self, wait: float) -> float:
        longest = min(self._tuning.longest_wait, max(wait, self._tuning.first_wait / 2) * 2)
        return random.uniform(0.75 * longest, longest)

    def _pause(self, seconds: float, stop: Callable[[], bool]) -> None:
        ends_at = time.monotonic() + seconds
        while not stop() and (left := ends_at - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))

    def _list(self, cursor: _Cursor, stop: Callable[[], bool]) -> Generator[Change, None, None]:
        names: set[str] = set()
        token, relist, expired = "", cursor.listed, 0
        while not stop():
            params = dict(self._resource.params)
            if expired < PAGED_TRIES:
                params["limit"] = str(PAGE)
            if token:
                params["continue"] = token
            try:
                with Cutter(stop, 2 * PAGE_SECONDS) as cutter, cutter.following():
                    page = self._api.get(
                        self._resource.path, self._resource.name, verb="list", params=params, seconds=PAGE_SECONDS
                    )
            except ResyncNeeded:
                if not token:
                    raise
                self._counts["expired_list"] += 1
                token, names, expired = "", set(), expired + 1
                continue
            for raw in items(mapping(page).get("items")):
                names.add(self._resource.key(raw))
                if (item := self._read(raw)) is not None:
                    yield Change("added", item, version_of(raw), relist=relist)
            token = text(mapping(mapping(page).get("metadata")).get("continue"))
            if not token:
                version = version_of(page)
                if not version:
                    said = f"{self._api.address} listed {self._resource.name} without a resourceVersion."
                    raise TemporaryError(said, code="api_garbage")
                cursor.version, cursor.listed = version, True
                yield Change("synced", None, version, frozenset(names - {""}), relist=relist)
                return

    def _watch(self, cursor: _Cursor, stop: Callable[[], bool], state: StreamState) -> Generator[Change, None, None]:
        if stop():
            return
        seconds = self._tuning.watch_seconds * random.uniform(0.9, 1.1)
        silence = seconds + self._tuning.silence_margin
        params = {
            **self._resource.params,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": cursor.version,
            "timeoutSeconds": str(max(1, round(seconds))),
        }
        call = Call(self._api.address, "watch", self._resource.name)
        doubt = Doubt(self._tuning.doubt_after, lambda: self._api.get("/version", "version"))
        ended = lambda: stop() or doubt.dead()  # noqa: E731
        with Cutter(ended, silence) as cutter, self._api.stream(call, self._resource.path, params, cutter) as response:
            cutter.patience(silence)
            cursor.opened_at = time.monotonic()
            state.watching()
            for line in self._lines(call, response, stop, doubt):
                change = self._change(call, line, cursor)
                if change is not None:
                    yield change
                if stop():
                    return

    def _lines(
        self, call: Call, response: urllib3.HTTPResponse, stop: Callable[[], bool], doubt: Doubt
    ) -> Iterator[bytes]:
        tail: list[bytes] = []
        held = 0
        failure: Exception | None = None
        while True:
            try:
                chunk = response.read1(1 << 16)
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                chunk, failure = b"", error
            if not chunk:
                break
            doubt.heard()
            head, newline, rest = chunk.rpartition(b"\n")
            if newline:
                lines = b"".join([*tail, head]).split(b"\n")
                tail, held = [rest], len(rest)
                yield from (line for line in lines if line.strip())
            else:
                tail.append(chunk)
                held += len(chunk)
                if held > LONGEST_LINE:
                    raise self._garbled(call, "a line without end", "watch_garbage")
        if stop():
            return
        doubt.confirmed()
        if any(part.strip() for part in tail):
            raise self._garbled(call, "the stream was cut in the middle of an event", "watch_cut")
        if failure is not None:
            raise broken(call, failure) from failure

    def _change(self, call: Call, line: bytes, cursor: _Cursor) -> Change | None:
        try:
            event = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise self._garbled(call, "an event that is not JSON", "watch_garbage") from error
        kind, raw = text(mapping(event).get("type")), mapping(event).get("object")
        if kind == "ERROR":
            status = mapping(raw)
            code = status.get("code")
            raise refused(call, Answer(code if isinstance(code, int) else 500, {}, line, [status]))
        version = version_of(raw)
        if version:
            cursor.version, cursor.progressed = version, True
        if kind == "BOOKMARK":
            return Change("bookmark", None, version)
        if kind not in _KINDS:
            self._counts["skipped"] += 1
            return None
        item = self._read(raw)
        return None if item is None else Change(_KINDS[kind], item, version)

    def _read(self, raw: Any) -> NodeSeen | PodSeen | Spoken | None:
        try:
            return self._resource.decode(raw)
        except Exception:
            # One unreadable object must not end the stream that carries all others.
            self._counts["skipped"] += 1
            return None

    def _garbled(self, call: Call, what: str, code: str) -> TemporaryError:
        self._counts["cut" if code == "watch_cut" else "garbage"] += 1
        text = f"{call.server} sent {what} while watching {self._resource.name}; reconnecting."
        return TemporaryError(text, code=code)
