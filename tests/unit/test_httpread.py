"""An answer is read whole or not at all, and what was not read to its end is not used again."""

from __future__ import annotations

import gzip
import io
import time

import pytest
import urllib3

from fleet.ports import httpread
from fleet.ports.httpread import NotWhole, Why

SOON = 60.0  # seconds from now; nothing here takes so long


class Dripping(io.BytesIO):
    """A byte each time it is asked, as a slow server sends them."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(1)


def answer(body: io.BytesIO, encoding: str = "") -> urllib3.HTTPResponse:
    headers = {"Content-Encoding": encoding} if encoding else {}
    return urllib3.HTTPResponse(body, headers=headers, preload_content=False)


def test_a_body_is_read_to_its_end_and_decoded() -> None:
    assert httpread.whole(answer(io.BytesIO(b"abc")), 3, time.monotonic() + SOON) == b"abc"
    packed = answer(io.BytesIO(gzip.compress(b"abc" * 9)), "gzip")
    assert httpread.whole(packed, 27, time.monotonic() + SOON) == b"abc" * 9


@pytest.mark.parametrize(
    ("body", "encoding", "seconds", "why"),
    [
        (io.BytesIO(b"abcd"), "", SOON, Why.TOO_LARGE),
        (io.BytesIO(gzip.compress(b"\0" * 100)), "gzip", SOON, Why.TOO_LARGE),  # small on the wire
        (Dripping(b"abc"), "", -1.0, Why.TOO_SLOW),
        (io.BytesIO(b"no gzip"), "gzip", SOON, Why.UNDECODABLE),
    ],
)
def test_what_keeps_a_body_from_being_whole_is_named(body: io.BytesIO, encoding: str, seconds: float, why: Why) -> None:
    response = answer(body, encoding)
    with pytest.raises(NotWhole) as caught:
        httpread.whole(response, 3, time.monotonic() + seconds)
    assert caught.value.why == why
    assert body.closed, "its connection would be used again"


def test_a_failure_is_told_in_one_line_of_a_sentence() -> None:
    assert httpread.first_line(ValueError("No route.\nTraceback")) == "No route"
    assert httpread.first_line(TimeoutError()) == "TimeoutError"
    assert len(httpread.first_line(ValueError("x" * 900))) == httpread.LONGEST_LINE
