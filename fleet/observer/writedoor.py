"""The door of remote write, 1.0 and 2.0.

Decides by the content type which of the two a body is, and answers 204 once its samples lie in the frame. Takes a large
request in parts and lets others pass between them, so that a fatal line never waits for a thousand new series. Refuses
what is no snappy, no message or of another kind with a sentence, and takes nothing before it knows the nodes: a sender
told 503 comes again, one told 2xx does not.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from fleet.access.models import Token
from fleet.observer.answers import Answer, Answered, Headers
from fleet.observer.push import Refusals
from fleet.observer.session import Session
from fleet.telemetry import packing, remotewrite, remotewrite2
from fleet.telemetry.protobuf import BadMessage
from fleet.telemetry.pushintake import EVERYDAY, PushIntake
from fleet.telemetry.remotewrite import NewSeries, PushCache, PushedSamples
from fleet.telemetry.services import Refusal

PART = 1000
MAX_HELD = 128 * 1024 * 1024
"""Bytes of unpacked requests that wait between their parts; a megabyte on the wire can be twenty here."""
FIRST, SECOND = "prometheus.WriteRequest", "io.prometheus.write.v2.Request"
_SAID = {
    "unknown_node": "names no node of this cluster",
    "ambiguous_node": "is a name of two nodes",
    "wrong_node": "is not the one node that the sender may speak for and that its labels agree on",
    "too_many_series": "has more series than one exporter may have",
    "no_device": "lacks the label that names its device",
    "bad_label": "has labels that are no identity",
    "malformed": "cannot be read",
    "clock_skew": "has a time that lies in the future",
}
ReadPart = Callable[[int, int, PushCache, NewSeries], PushedSamples]


@dataclass(slots=True)
class WriteDoor:
    session: Session
    intake: PushIntake
    refusals: Refusals
    _held: int = 0

    async def take(self, token: Token, headers: Headers, body: bytes) -> Answer:
        version = _version(headers)
        if not self.session.names:
            raise Answered(503, "The nodes of the cluster are not known yet; send it again.")
        weight, size, read = _opened(body, version)
        if self._held and self._held + weight > MAX_HELD:
            raise Answered(429, "Too much is being sent at once; send it again.")
        self._held += weight
        try:
            return await self._taken(token, size, read)
        finally:
            self._held -= weight

    async def _taken(self, token: Token, size: int, read: ReadPart) -> Answer:
        """A request part by part, and what is answered to it."""
        taken, rejects, counts = 0, Counter[str](), Counter[str]()
        for start in range(0, size, PART):
            mono, wall = self.session.clock.monotonic(), self.session.clock.now().timestamp()
            cache = self.intake.cache(token.node, mono)  # asked for each part: a changed alias table empties it
            pushed = read(start, start + PART, cache, lambda labels: self.intake.place(labels, token.node, mono))  # noqa: B023
            more, refused = self.intake.take(pushed, mono, wall)
            taken, rejects, counts = taken + more, rejects + refused, counts + pushed.counts
            await asyncio.sleep(0)
        self.intake.counts["histograms"] += counts["histograms"]
        self.intake.counts["requests"] += 1
        self._count(token, rejects)
        written = {f"X-Prometheus-Remote-Write-{what}-Written": "0" for what in ("Histograms", "Exemplars")}
        written["X-Prometheus-Remote-Write-Samples-Written"] = str(taken)
        if size and rejects["malformed"] == size:
            raise Answered(400, "No series of the request could be read.", written)
        if not taken and rejects["wrong_node"]:
            raise Answered(403, f"This token may speak only for {token.node or 'nodes whose labels agree'}.", written)
        return Answer(204, headers=written)

    def _count(self, token: Token, rejects: Counter[str]) -> None:
        for reason, count in rejects.items():
            if reason not in EVERYDAY:
                example = self.intake.examples.get(reason, "")
                text = f"A series pushed by {token.name} {_SAID.get(reason, reason)}."
                self.refusals.add(Refusal("push", reason, example or token.name), text, count)


def _version(headers: Headers) -> str:
    kind, *parameters = headers.get(b"content-type", b"").decode("latin-1").split(";")
    if kind.strip().lower() != "application/x-protobuf":
        raise Answered(415, "Remote write is application/x-protobuf.")
    if headers.get(b"content-encoding", b"snappy").strip().lower() != b"snappy":
        raise Answered(415, "Remote write is packed with snappy.")
    given = dict(parameter.strip().partition("=")[::2] for parameter in parameters)
    proto = given.get("proto", FIRST).strip('"')
    if proto not in (FIRST, SECOND):
        raise Answered(415, f"Of remote write {FIRST} and {SECOND} are understood.")
    return proto


def _opened(body: bytes, version: str) -> tuple[int, int, ReadPart]:
    """How many bytes and series there are, and how to read some of them."""
    try:
        plain = packing.snappy(body, remotewrite2.MAX_PLAIN if version == SECOND else packing.MAX_PLAIN)
        if version == SECOND:
            request = remotewrite2.Request(plain)
            return len(plain), len(request), request.read
        series = remotewrite.split(plain)
    except packing.TooLarge as error:
        raise Answered(413, str(error)) from error
    except (packing.NotPacked, BadMessage) as error:
        raise Answered(400, str(error)) from error
    return len(plain), len(series), lambda start, end, cache, new: remotewrite.read(series[start:end], cache, new)
