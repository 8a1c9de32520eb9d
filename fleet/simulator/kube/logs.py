"""What a pod printed.

It decides the text behind pods/log: what the kubelet kept of it, else the last message of a finished container, and of
either the last lines or the first bytes where the client asks for no more.
"""

from collections.abc import Mapping

import orjson

from fleet.simulator.store import Record


def pod_log(record: Record, kept: Mapping[str, str], query: Mapping[str, str]) -> bytes:
    text = kept.get(record.uid) or _last_words(record)
    if query.get("tailLines", "").isdecimal():
        text = "".join(text.splitlines(keepends=True)[-int(query["tailLines"]) :])
    body = text.encode()
    return body[: int(query["limitBytes"])] if query.get("limitBytes", "").isdecimal() else body


def _last_words(record: Record) -> str:
    lines = []
    for container in (orjson.loads(record.body).get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            lines.append(ended["message"])
    return "".join(line + "\n" for line in lines)
