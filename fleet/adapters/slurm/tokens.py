"""Slurm's tokens: signed texts that tell themselves when they end.

Decides from the token alone that it is over or that it is none, and whose it is. Refuses to check its signature, which
only Slurm can, and to put anything of it into a sentence except the time.
"""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

import orjson

from fleet.ports.shapes import mapping, text


def ends_at(token: str) -> float | None:
    """Seconds since 1970; None for one that tells no end or is no JSON Web Token."""
    end = _claims(token).get("exp")
    return float(end) if isinstance(end, int) and not isinstance(end, bool) else None


def user_of(token: str) -> str:
    """Whose it is, "" when it does not tell: Slurm's name for the claim is `sun`, `username` where others sign."""
    claims = _claims(token)
    name = text(claims.get("sun")) or text(claims.get("username"))
    return name if name.isprintable() else ""


def _claims(token: str) -> dict[str, Any]:
    parts = token.split(".")
    if len(parts) != 3:
        return {}
    try:
        return mapping(orjson.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))))
    except (orjson.JSONDecodeError, binascii.Error, ValueError):
        return {}


def expired(token: str, now: float) -> str:
    """Why it is of no use any more, without a full stop; "" as long as it may be."""
    if not token.isprintable() or not token:
        return "there is none"
    end = ends_at(token)
    if end is None or end > now:
        return ""
    try:
        return f"it ended at {datetime.fromtimestamp(end, UTC):%Y-%m-%d %H:%M} UTC"
    except (OverflowError, ValueError, OSError):
        return "it ended long ago"
