"""Reading foreign JSON without trust: every accessor gives the wanted type or an empty value.

Decides how odd values are read: no text holds a NUL (a condition's message may, and no database takes it), and no
number more than nine digits. Refuses to raise: an object with a strange field is still an object.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

MOST = 10**9
FIRST_YEAR, LAST_YEAR = 1970, 9000  # beyond them no time zone and no difference can be applied


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    """The mappings of a list; anything else in it is skipped."""
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    if not isinstance(value, str):
        return ""
    return value.replace("\0", "") if "\0" in value else value


def strings(value: Any) -> tuple[str, ...]:
    return tuple(text(entry) for entry in value if isinstance(entry, str)) if isinstance(value, list) else ()


def texts(value: Any) -> dict[str, str]:
    """Labels or annotations; null values (which some writers leave) read as empty."""
    if not isinstance(value, dict):
        return {}
    return {text(key): text(entry) for key, entry in value.items()}


def whole(value: Any, default: int) -> int:
    if isinstance(value, bool):
        return default
    try:
        return max(-MOST, min(MOST, value if isinstance(value, int) else int(float(value))))
    except (TypeError, ValueError, OverflowError):
        return default


def moment(value: Any) -> datetime | None:
    """RFC 3339 as aware UTC, None if absent, unreadable or no time that anything happened at."""
    if not isinstance(value, str) or not value:
        return None
    try:
        found = datetime.fromisoformat(value)
        found = found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        return None
    return found if FIRST_YEAR <= found.year <= LAST_YEAR else None
