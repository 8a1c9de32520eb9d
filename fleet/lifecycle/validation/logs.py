"""A pod's log as text that a parser may read.

Decides what is dropped (colours, cursor movements, control characters) and how much is read at all. Refuses nothing:
whatever a container printed comes out as lines, the newest kept when there is too much.
"""

from __future__ import annotations

import re

MOST_CHARS = 4 << 20
TAIL_LINES, TAIL_CHARS = 40, 4000

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]?")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def clean(raw: str) -> str:
    """Lines without escapes and control characters; a carriage return ends a line, as it does on a terminal."""
    text = _ESCAPES.sub("", raw[-MOST_CHARS:])
    return _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def tail(text: str) -> str:
    """The last lines, short enough to keep with the result."""
    return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARS:]
