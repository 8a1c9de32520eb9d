"""The door of Loki's push form, for shippers that speak nothing else.

Decides by the content type whether a body is JSON or protobuf. Everything behind it is as for other kernel lines.
Refuses what is neither with a sentence; answers 204, as Loki does.
"""

from __future__ import annotations

from dataclasses import dataclass

from fleet.access.models import Token
from fleet.observer.answers import Answer, Answered, Headers
from fleet.observer.push import MAX_BODY, Push, aside
from fleet.telemetry import loki, packing
from fleet.telemetry.kernellog import Batch
from fleet.telemetry.protobuf import BadMessage


@dataclass(slots=True)
class LokiDoor:
    push: Push

    async def take(self, token: Token, headers: Headers, body: bytes) -> Answer:
        answer = await self.push.hear(token, await _read(headers, body))
        return Answer(204) if answer.status == 200 else answer


async def _read(headers: Headers, body: bytes) -> Batch:
    kind = headers.get(b"content-type", b"application/json").split(b";")[0].strip().lower()
    if kind == b"application/json":
        return await aside(loki.read_json, body)
    if kind != b"application/x-protobuf":
        raise Answered(415, "Loki's push form is application/json or application/x-protobuf.")
    try:
        return await aside(_unpacked, body)
    except packing.TooLarge as error:
        raise Answered(413, str(error)) from error
    except (packing.NotPacked, BadMessage) as error:
        raise Answered(400, "The body is not a push request of Loki, packed with snappy.") from error


def _unpacked(body: bytes) -> Batch:
    return loki.read_protobuf(packing.snappy(body, MAX_BODY))
