"""What an answer of slurmrestd says, in any version of its API.

Decides that an answer counts by its body: 200 with errors is an error, 500 with a useful body is one too; and which of
Slurm's numbers are a refused token, an unknown object or a slurmctld that is away. One number may be no number (NaN)
and one name no text of Unicode: the rest of the answer is read all the same. Refuses to guess what a version does not
tell apart. Pure.
"""

from __future__ import annotations

import re
from typing import Any

import orjson

from fleet.ports.shapes import items, mapping, text

DENIED, NOT_FOUND, UNTOLD, ACCOUNTING, AWAY, REFUSED = "denied", "not_found", "untold", "accounting", "away", "refused"
DENIES = frozenset({401, 403, 511})
"""511 is what 26.05 answers with a token that has ended or has another key."""
OF_A_PROXY = frozenset({502, 503, 504})
"""What stands before slurmrestd says so, in words of its own, when it is not there."""
_DENIED = frozenset({1007, 2002, 2010, 9008, *range(6000, 6012)})
"""Numbers of Slurm: protocol authentication error, access denied, not this user's to do, a REST login refused, and all
that is wrong with a credential."""
_UNKNOWN = frozenset({2017, 2018, 9003})  # invalid job id, invalid node name, nothing found
_RESERVATION_INVALID = 2053
_AWAY = frozenset({*range(1000, 1005), *range(1014, 1026), *range(1800, 1806), 2027, 2131, *range(5000, 5006)})
"""A connection that was not made, not accepted or cut, and a controller that is only the one in reserve."""
_UNTOLD = -1  # "unspecified" is said of a refused token and of a slurmctld that is away alike, up to 24.11
_NO_DATABASE = 7000  # so does 23.11 of both, where it keeps accounts
_NONE = frozenset({None, 0})
_NO_NUMBER = re.compile(rb"(?<=[:\[,\s])(?:-?(?:NaN|nan|Infinity|inf))(?=\s*[,\]}])")
LONGEST = 500


def read(body: bytes) -> dict[str, Any] | None:
    """The object; None where it is no JSON."""
    try:
        return mapping(orjson.loads(body))
    except orjson.JSONDecodeError:
        pass
    try:
        return mapping(orjson.loads(_NO_NUMBER.sub(b"null", body).decode("utf-8", "replace")))
    except orjson.JSONDecodeError:
        return None


def judged(status: int, answer: dict[str, Any], path: str) -> tuple[str, str]:
    """(what is wrong, in Slurm's words without a full stop); ("", "") of an answer without errors."""
    errors = [entry for entry in items(answer.get("errors")) if entry]
    numbers = {_number(entry) for entry in errors}
    words = "; ".join(dict.fromkeys(filter(None, map(_words, errors))))[:LONGEST].rstrip(". ") or f"HTTP {status}"
    if status in DENIES or numbers & _DENIED:
        return DENIED, words
    if status == 404 or numbers & _UNKNOWN or (errors and _names_nothing(path, numbers)):
        return NOT_FOUND, words
    if _UNTOLD in numbers:
        return UNTOLD, words
    if _NO_DATABASE in numbers:
        return ACCOUNTING, words
    if numbers & _AWAY:
        return AWAY, words
    return (REFUSED, words) if errors or status >= 400 else ("", "")


def _names_nothing(path: str, numbers: set[int | None]) -> bool:
    """A single node is answered with the error "no error" where there is none of that name, with 200, up to 26.05."""
    kind = path.rsplit("/", 2)[-2]
    return (kind == "node" and numbers <= _NONE) or (kind == "reservation" and _RESERVATION_INVALID in numbers)


def _number(entry: dict[str, Any]) -> int | None:
    found = next((entry[key] for key in ("error_number", "errno") if isinstance(entry.get(key), int)), None)
    return None if isinstance(found, bool) else found


def _words(entry: dict[str, Any]) -> str:
    """22.05 has the sentence in `error`, later ones tell in `description` what failed and in `error` why."""
    what, why = text(entry.get("description")), text(entry.get("error"))
    return f"{what} ({why})" if what and why and why not in what and _number(entry) not in _NONE else what or why
