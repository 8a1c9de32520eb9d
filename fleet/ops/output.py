"""What the supervisor prints and keeps.

Decides that each line of a child goes to the terminal under the child's name and to `var/log/<process>.log`, of which
three old parts are kept. Refuses to fail when the terminal has gone away.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TextIO

COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
WIDTH = 14


class Console:
    """Lines under a name, in colour only on a terminal that wants it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._colour = self._stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self._known: dict[str, int] = {}

    def line(self, name: str, text: str) -> None:
        colour = self._known.setdefault(name, COLOURS[len(self._known) % len(COLOURS)])
        label = f"{name:<{WIDTH}}"
        if self._colour:
            label = f"\033[{colour}m{label}\033[0m"
        self.plain(f"{label} {text}")

    def plain(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text + "\n")
            self._stream.flush()


class RotatingLog:
    """An append-only file that is renamed to `.1`, `.2`, ... when it would grow beyond `limit` bytes."""

    def __init__(self, path: Path, limit: int = 5_000_000, keep: int = 3) -> None:
        self._path = path
        self._limit = limit
        self._keep = keep
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        self._size = path.stat().st_size

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk must not stop the supervisor
            if self._size and self._size + len(data) > self._limit:
                self._rotate()
            self._size += self._file.write(data) or 0

    def _part(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _rotate(self) -> None:
        self._file.close()
        for number in range(self._keep - 1, 0, -1):
            if self._part(number).exists():
                self._part(number).replace(self._part(number + 1))
        self._path.replace(self._part(1))
        self._file = self._path.open("ab", buffering=0)
        self._size = 0

    def close(self) -> None:
        self._file.close()
