"""What is answered to a push: the shape that all doors share.

Decides nothing but that: a door is given a token, headers and a body, and gives an answer or ends the request with a
status and a sentence.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet.access.models import Token

Headers = Mapping[bytes, bytes]  # names in lower case


class Answered(Exception):
    """The request ends here: status and sentence."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = dict(headers or {})


@dataclass(frozen=True, slots=True)
class Answer:
    """`body` becomes JSON, and nothing with 204."""

    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


Door = Callable[[Token, Headers, bytes], Awaitable[Answer]]
