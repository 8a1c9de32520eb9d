"""What every reader of a foreign HTTP API shares: its connections, and its answers read whole or not at all.

Decides that no answer is larger than its reader allows or later than its deadline, whoever sends it and however slowly,
and that a connection whose body was not read to its end is closed, never used again. Refuses to say what a failure
means: each adapter has its own words and codes for that.
"""

from __future__ import annotations

import time
from enum import StrEnum

import urllib3

CHUNK = 1 << 18
CONNECT_SECONDS = 3.0
LONGEST_LINE = 200


class Why(StrEnum):
    """What kept an answer from being read whole."""

    TOO_LARGE = "too_large"
    TOO_SLOW = "too_slow"
    CUT_OFF = "cut_off"
    UNDECODABLE = "undecodable"  # its compression does not hold what it says


class NotWhole(Exception):
    """The body did not come whole; `why` says what kept it."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why = why


def connections(verify: bool | str, at_once: int, timeout: float) -> urllib3.PoolManager:
    """A pool of `at_once` connections for each host. It repeats nothing by itself.

    `verify` is whether certificates are, or the file of the authorities that sign them; `timeout` is the seconds that
    the other side may be silent.
    """
    return urllib3.PoolManager(
        maxsize=at_once,
        cert_reqs="CERT_REQUIRED" if verify else "CERT_NONE",
        ca_certs=verify if isinstance(verify, str) else None,
        timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, timeout), read=timeout),
        retries=False,
    )


def whole(response: urllib3.BaseHTTPResponse, limit: int, deadline: float) -> bytes:
    """The decoded body: at most `limit` bytes, come before `deadline` of the monotonic clock. Raises NotWhole.

    What urllib3 raises of a broken connection or a silence passes through.
    """
    parts: list[bytes] = []
    try:
        _read(response, limit, deadline, parts)
    except urllib3.exceptions.DecodeError as error:
        response.close()
        raise NotWhole(Why.UNDECODABLE) from error
    except urllib3.exceptions.ProtocolError as error:
        response.close()
        raise NotWhole(Why.CUT_OFF) from error
    except BaseException:
        response.close()
        raise
    response.release_conn()
    return b"".join(parts)


def _read(response: urllib3.BaseHTTPResponse, limit: int, deadline: float, parts: list[bytes]) -> None:
    size = 0
    while part := response.read1(CHUNK, decode_content=True):
        parts.append(part)
        size += len(part)
        if size > limit:
            raise NotWhole(Why.TOO_LARGE)
        if time.monotonic() > deadline:
            raise NotWhole(Why.TOO_SLOW)


def first_line(error: BaseException) -> str:
    """What went wrong in a line that may stand in a sentence, without its full stop."""
    return (str(error) or type(error).__name__).splitlines()[0][:LONGEST_LINE].rstrip(".")
