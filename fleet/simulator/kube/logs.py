"""What a pod printed.

It decides the text behind pods/log: for a finished container its last message. It refuses to keep logs of its own.
"""

import orjson

from fleet.simulator.store import Record


def pod_log(record: Record) -> bytes:
    lines = []
    for container in (orjson.loads(record.body).get("status") or {}).get("containerStatuses") or ():
        ended = (container.get("state") or {}).get("terminated") or {}
        if ended.get("message"):
            lines.append(ended["message"])
    return "".join(line + "\n" for line in lines).encode()
