"""The batch script of a test, and what it has left: a file that the node writes and Muster reads.

Decides that a run which came to its end says so with its last line, so that its result is there to be read although
Slurm has forgotten the job. Refuses a file of which the end is missing as a result, and to read more than its end.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

MOST_BYTES = 4 << 20
_END = re.compile(r"muster-exit (\d{1,3})\s*\Z")


def script(command: Sequence[str]) -> str:
    """The command as it is, its output readable for others, and its exit code in the last line and as the job's own."""
    return f'#!/bin/sh\numask 022\n{shlex.join(command)}\ncode=$?\necho "muster-exit $code"\nexit $code\n'


def output(folder: str, name: str) -> str:
    """The path that Slurm writes to; it puts the job's number for `%j`."""
    return f"{folder.rstrip('/')}/{name}-%j.out"


def left(folder: str, name: str, job: int | None) -> tuple[str | None, int | None]:
    """(what was printed, exit code) of that job, of the newest of that name where its number is not known.

    The first is None while there is no file, the second while its last line is missing.
    """
    if job is not None:
        return _read(Path(folder) / f"{name}-{job}.out")
    form = re.compile(re.escape(name) + r"-(\d{1,12})\.out")
    try:
        numbers = [int(found[1]) for path in Path(folder).iterdir() if (found := form.fullmatch(path.name))]
    except OSError:
        numbers = []
    return _read(Path(folder) / f"{name}-{max(numbers)}.out") if numbers else (None, None)


def _read(path: Path) -> tuple[str | None, int | None]:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - MOST_BYTES))
            printed = file.read(MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return None, None
    end = _END.search(printed[-64:])
    return (printed[: len(printed) - len(end[0])], int(end[1])) if end else (printed, None)
