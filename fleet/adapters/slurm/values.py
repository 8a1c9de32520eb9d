"""Slurm's values in any of its API's versions.

Decides that a number may come plain or as {set, infinite, number}, a state as a word, a word with flags or a list, and
0 as "never" for a time. Refuses to tell what is not set: it is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from fleet.ports.shapes import MOST, strings, text

_GPU = re.compile(r"(?:gres[/:])?gpu(?P<typed>:[^:=]*)?(?P<by>[:=])(?P<count>\d+)(?P<thousand>K)?")
_BARE_GPU = re.compile(r"(?:gres[/:])?gpu(?::.*)?")  # a type without a number, or neither: one
_SHARED = re.compile(r"(?:shard|mps)(?::[^(,]*)?\(([^)]*)\)")
_RANGE = re.compile(r"^(\d+)-(\d+)$")
_LAST_SECOND = (
    4_294_967_293  # the largest numbers of 32 bits, and all behind them, are Slurm's "not set" and "infinite"
)
MOST_HOSTS = 200_000


def number(value: Any) -> int | None:
    """A count; None for unset and infinite. Old versions tell the largest numbers for both."""
    if isinstance(value, dict):
        if value.get("set") is not True or value.get("infinite") is True:
            return None
        value = value.get("number")
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return None
    return int(value) if -MOST <= value < 4_294_967_293 else None


def moment(value: Any) -> datetime | None:
    """A time in seconds; 0 is "never"."""
    seconds = value.get("number") if isinstance(value, dict) and value.get("set") is True else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < _LAST_SECOND:
        return None
    return datetime.fromtimestamp(seconds, UTC)


def states(value: Any, flags: Any = None) -> frozenset[str]:
    """All words of a state in capitals: the base state and its flags, however they are told."""
    words = [text(value)] if isinstance(value, str) else list(strings(value))
    words += [text(flags)] if isinstance(flags, str) else list(strings(flags))
    return frozenset(part.strip("*~#!%$@^-").upper() for word in words for part in word.split("+") if part)


def words(value: Any) -> tuple[str, ...]:
    """A list of words, or a text of them with commas as before 23.11."""
    return tuple(filter(None, text(value).split(","))) if isinstance(value, str) else strings(value)


def gpus(gres: Any) -> int:
    """GPUs of a text like `gpu:h100:8(S:0-1),nvme:2`, `gres/gpu:3090=8`, `gpu:1g.10gb:7(IDX:0-6)`; a bare `gpu` is one.

    A type may begin with digits or be nothing else. What is written with `=` tells the sum of all types beside each
    type, so they are not added to it.
    """
    if not isinstance(gres, str):
        return 0
    listed = in_all = by_type = 0
    for word in re.sub(r"\([^)]*\)", "", gres).split(","):
        found = _GPU.fullmatch(word.strip().replace(":no_consume", ""))
        if found is None:
            listed += _BARE_GPU.fullmatch(word.strip()) is not None
            continue
        n = min(MOST, int(found["count"])) * (1024 if found["thousand"] else 1)
        if found["by"] == ":":
            listed += n
        elif found["typed"]:
            by_type += n
        else:
            in_all += n
    return listed + max(in_all, by_type)


def shared(gres: Any) -> int:
    """GPUs of which parts are given, as in `shard:h100:1(IDX:0),mps:200(50/100,0/100)`: none is given whole."""
    found = 0
    for inside in _SHARED.findall(gres) if isinstance(gres, str) else ():
        if inside.startswith("IDX:"):
            found += len(hosts(f"[{inside[4:]}]")) if inside[4:5].isdigit() else 0
        else:
            found += sum(one.strip()[:1] not in ("", "0") for one in inside.split(",") if "/" in one)
    return min(found, MOST)


def hosts(raw: Any) -> tuple[str, ...]:
    """A host list in full: `gpu-[01-03,07],login` and lists in lists of older versions. At most MOST_HOSTS names."""
    if isinstance(raw, dict):
        raw = raw.get("list") or raw.get("nodes")
    if isinstance(raw, list):
        raw = ",".join(strings(raw))
    return _hosts(raw if isinstance(raw, str) else "")


@lru_cache(maxsize=32)
def _hosts(raw: str) -> tuple[str, ...]:
    """Many jobs may name the same thousands of nodes, as those of slurm-bridge do: they share one list."""
    found: list[str] = []
    for word in _split(raw):
        for name in _expanded(word):
            found.append(name)
            if len(found) >= MOST_HOSTS:
                return tuple(found)
    return tuple(dict.fromkeys(found))


def _split(raw: str) -> Iterator[str]:
    """By commas that are outside of brackets."""
    depth, word = 0, ""
    for character in raw:
        if character == "," and depth == 0:
            if word.strip():
                yield word.strip()
            word = ""
            continue
        depth += {"[": 1, "]": -1}.get(character, 0)
        word += character
    if word.strip() and word.strip() not in ("(null)", "None assigned"):
        yield word.strip()


def _expanded(word: str) -> Iterator[str]:
    start = word.find("[")
    end = word.find("]", start)
    if start < 0 or end < 0:
        yield word
        return
    for middle in word[start + 1 : end].split(","):
        for part in _counted(middle.strip()):
            for tail in _expanded(word[end + 1 :]):
                yield word[:start] + part + tail


def _counted(middle: str) -> Iterator[str]:
    match = _RANGE.match(middle)
    if match is None:
        yield middle
        return
    first, last = int(match[1]), int(match[2])
    for n in range(first, min(last, first + MOST_HOSTS) + 1):
        yield str(n).zfill(len(match[1]))
